import { proveCommands } from './prove-commands.ts'

proveCommands('postgres')
