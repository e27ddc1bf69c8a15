// Installs what the browser suites need.
import { installMissing } from '../support/debian-packages.ts'
import { PACKAGES } from './packages.ts'

installMissing(PACKAGES)
