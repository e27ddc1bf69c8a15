// The commands on PostgreSQL print the same as on SQLite.
import { test } from 'node:test'
import { assertTranscript, ON_BOTH } from '../support/transcripts.ts'

for (const name of ON_BOTH) test(`${name}, on postgres`, t => assertTranscript(t, 'postgres', name))
