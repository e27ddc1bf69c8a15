// What the pages of the console are given: the parts that they share, and the visit of a user.
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from '../../config/config.ts'
import type { SessionUser } from '../../domain/session.ts'
import type { FactorDeps } from '../../http/routes/factor-forms.ts'
import type { For, Form, Operation } from '../operation.ts'
import type { AdminDeps } from '../operations/deps.ts'

/** An operation with its form, whose path and texts have their defaults. */
export type ConsoleForm = Operation & { id: string; form: Form & Required<Pick<Form, Given>> }
type Given = 'path' | 'title' | 'about' | 'label' | 'asks'

export type ConsoleDeps = FactorDeps & {
  roles: NonNullable<Config['console']>
  admin: Omit<AdminDeps, 'by'>
  forms: ConsoleForm[]
}

/** A request with a session of the console; its user and role are as at this request. */
export type Visit = {
  deps: ConsoleDeps
  request: FastifyRequest
  reply: FastifyReply
  user: SessionUser
  /** Null: the role has no place here. */
  rank: For | null
  csrf: string
  /** Whether the login was within the last minutes. */
  isRecent: boolean
  hasSecondFactor: boolean
  /** The user is the actor of its operations. */
  admin: AdminDeps
  now: Date
}

/** What was typed, by the names of the fields. */
export type Typed = Partial<Record<string, string>>
/** A form that was refused: what was typed, and what is wrong. */
export type Refused = { id: string; typed: Typed; field?: string | undefined; message: string }
