import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RepeatedEmails } from './repeated-emails.ts'

test('a repeated email is found with its first line, among many', () => {
  const emails = new RepeatedEmails()
  const count = 100_000
  for (let line = 1; line <= count; line++) {
    assert.equal(emails.firstLineOf(`user${line}@example.com`, line), null)
  }
  for (const line of [1, 2, 3_071, 3_072, 3_073, 50_000, count]) {
    assert.equal(emails.firstLineOf(`user${line}@example.com`, count + 1), line)
  }
})
