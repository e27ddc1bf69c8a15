import { proveRequests } from './prove-requests.ts'

proveRequests('postgres')
