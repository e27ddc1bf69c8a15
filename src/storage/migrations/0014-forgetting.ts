// Lets events forget a deleted user, and lets the purge remove old events. Every other change is refused as before.
import { type Kysely, sql } from 'kysely'
import type { ColumnTypes } from './column-types.ts'

export async function up(db: Kysely<unknown>, types: ColumnTypes): Promise<void> {
  const { engine, time, isTime, options } = types
  const statements = [
    // One row: the purge sets the moment before which it removes events, and clears it in the same transaction.
    sql`create table audit_purge (
      id integer primary key check (id = 1),
      removes_before ${time.type} ${isTime('removes_before')}
    ) ${options}`,
    sql`insert into audit_purge (id) values (1)`,
    ...(engine === 'postgres' ? POSTGRES : SQLITE).map(statement => sql.raw(statement)),
  ]
  for (const statement of statements) await statement.execute(db)
}

/** The fields of an event that name a user. */
const PERSONAL = ['email', 'name', 'userAgent']

/** True for an update that replaces a user by a pseudonym, once, and changes nothing else. */
const forgets = (withoutPersonal: (facts: string) => string) =>
  [
    '(new.id, new.at, new.actor_kind, new.actor, new.host, new.action)',
    '  = (old.id, old.at, old.actor_kind, old.actor, old.host, old.action)',
    "and new.target like 'deleted-user-%' and old.target not like 'deleted-user-%'",
    'and new.target_id is null',
    'and not exists (select 1 from users where id = old.target_id and is_active)',
    ...['"before"', '"after"'].flatMap(facts => [
      `and ${withoutPersonal(`new.${facts}`)} is not distinct from ${withoutPersonal(`old.${facts}`)}`,
      ...PERSONAL.map(
        field => `and coalesce(new.${facts} ->> '${field}', new.target) = new.target`,
      ),
    ]),
  ].join('\n')

const IS_PURGED = 'old.at < (select removes_before from audit_purge)'

const POSTGRES = [
  'drop trigger audit_events_append_only on audit_events',
  `create trigger audit_events_refuses_truncate before truncate on audit_events
    for each statement execute function refuse_changes_of_audit_events()`,
  `create function guard_audit_events() returns trigger language plpgsql as $$ begin
    if tg_op = 'DELETE' then
      if ${IS_PURGED} then return old; end if;
    elsif ${forgets(facts => `${facts}::jsonb - array['${PERSONAL.join("','")}']`)} then
      return new;
    end if;
    raise exception 'audit_events is append-only';
  end $$`,
  `create trigger audit_events_append_only before update or delete on audit_events
    for each row execute function guard_audit_events()`,
]

const SQLITE = [
  ...guard(
    'update',
    forgets(facts => `json_remove(${facts}, ${PERSONAL.map(field => `'$.${field}'`).join(', ')})`),
  ),
  ...guard('delete', IS_PURGED),
]

function guard(change: string, isAllowed: string): string[] {
  const name = `audit_events_refuses_${change}`
  return [
    `drop trigger ${name}`,
    // Null, if there is nothing to compare with, is not allowed either.
    `create trigger ${name} before ${change} on audit_events when (${isAllowed}) is not true
      begin select raise(abort, 'audit_events is append-only'); end`,
  ]
}
