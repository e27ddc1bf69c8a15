// Every operation of administrators. Its name is its id in the document of the admin API.
import { listAudit } from './operations/audit.ts'
import { addUser, setPassword } from './operations/passwords.ts'
import { resetSecondFactor } from './operations/second-factor.ts'
import { endSession, endSessions, listSessions } from './operations/sessions.ts'
import { clearThrottle, getThrottle } from './operations/throttle.ts'
import { addToken, listTokens, revokeToken } from './operations/tokens.ts'
import { getUserData } from './operations/user-data.ts'
import {
  activateUser,
  changeUser,
  deactivateUser,
  deleteUser,
  getUser,
  listUsers,
  lockUser,
  unlockUser,
} from './operations/users.ts'

export const OPERATIONS = {
  ...{ listUsers, addUser, getUser, changeUser, deleteUser, getUserData, setPassword },
  ...{ resetSecondFactor, activateUser, deactivateUser, lockUser, unlockUser },
  ...{ listSessions, endSessions, endSession },
  ...{ getThrottle, clearThrottle, listAudit, addToken, listTokens, revokeToken },
}
