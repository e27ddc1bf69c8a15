// Installs what the browser suites need.
import { installMissing } from '../debian-packages.ts'
import { PACKAGES } from './packages.ts'

installMissing(PACKAGES)
