// What administrators change, and the record of it.

/** Makes a change: a user of the operating system, a token of the admin API, or a person at the console. */
export type Actor = {
  kind: 'user' | 'token' | 'person'
  /** Of a person the email at that time; a pseudonym once the person has been deleted. */
  name: string
  /** The machine's name, or the address that the request came from. */
  host: string
  /** The user that the person is. */
  id?: string
}

/** When a change is made, and by which actor. The store records it in the transaction that makes the change. */
export type Change = {
  at: Date
  by: Actor
  /** Of the console: nothing is changed unless the change concerns this user, and the user is still as it was shown. */
  seen?: { id: string; updatedAt: Date } | undefined
  /** Set if the administrator allowed a password that breaks a rule. The record says so, but not which rule. */
  allowWeak?: boolean
}

export type AuditAction =
  | 'user.added'
  | 'user.imported'
  | 'user.changed'
  | 'user.activated'
  | 'user.deactivated'
  | 'user.locked'
  | 'user.unlocked'
  | 'user.deleted'
  | 'password.set'
  | 'second_factor.reset'
  | 'session.ended'
  | 'sessions.ended'
  | 'throttle.cleared'
  /** The keys are in a file. */
  | 'key.added'
  | 'key.removed'
  | 'token.added'
  | 'token.revoked'
  | 'user.exported'
  | 'users.exported'
  | 'users.read'
  | 'database.purged'

/** The fields of the target that the change concerns; never a secret. */
export type AuditFacts = Record<string, string | number | boolean | null>

export type NewAuditEvent = {
  action: AuditAction
  /**
   * What an administrator would call it: an email, the id of a session, device or key, the name of a token, or the
   * address of a client. A pseudonym once the user has been deleted.
   */
  target: string
  /** The user that it concerns; null if there is none, or if it has been deleted. */
  targetId: string | null
  before?: AuditFacts | null
  after?: AuditFacts | null
}

export type AuditEvent = Required<NewAuditEvent> & { id: number; at: Date; by: Actor }

export type AuditPage = {
  /** Leaves out events before this moment; null: none. */
  since: Date | null
  /** Continues before the event with this id; null: starts with the last one. */
  beforeId: number | null
  limit: number
}
/** `next` is the `beforeId` of the next page; null at the end. */
export type ListedEvents = { events: AuditEvent[]; next: number | null }

export interface AuditStore {
  /**
   * The last event comes first, by its time. With a target: the events that name it, and all events of the users that
   * these concern, so that the history of a user continues over a change of its email.
   */
  list(target: string | null, page: AuditPage): Promise<ListedEvents>
  /** The events of one user, the one that was recorded last first. Those of other users that have had its email are not among them. */
  listOfUser(
    user: { id: string; email: string },
    page: Omit<AuditPage, 'since'>,
  ): Promise<AuditEvent[]>
  /** For what is no change of the database: a change of a file, or a read. */
  record(change: Change, events: NewAuditEvent[]): Promise<void>
  /** The same, unless the actor has such an event of this day (UTC) already. */
  recordDaily(change: Change, event: NewAuditEvent): Promise<void>
}
