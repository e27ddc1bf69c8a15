import { proveMigrate } from './prove-migrate.ts'

proveMigrate('postgres')
