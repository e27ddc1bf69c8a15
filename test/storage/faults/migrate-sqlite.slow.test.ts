import { proveMigrate } from './prove-migrate.ts'

proveMigrate('sqlite')
