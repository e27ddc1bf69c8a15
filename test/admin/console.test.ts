// The console, as a browser without scripts uses it.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { startConsole } from '../support/console.ts'
import { ENGINES_BY_RUN } from '../support/engines.ts'
import { own } from '../support/own.ts'
import { PASSWORD, UNLIMITED } from '../support/service.ts'
import { noticeIn, textIn, unescaped } from '../support/visitor.ts'

for (const engine of ENGINES_BY_RUN) {
  describe(`the console on ${engine}`, async () => {
    const service = await own(startConsole(engine, UNLIMITED))

    test('walk', async () => {
      const admin = await service.newPerson('admin')
      const kate = await service.newPerson('user')
      const v = service.visitor()
      await v.logIn(admin.email)
      const people = await v.get('/console/people')
      assert.match(people.text, /<h1>People/)
      const page = await v.get(`/console/people/${kate.id}`)
      assert.equal(textIn(page, 'verdict'), `${kate.email} can log in.`)
      const again = await v.submit(page, `/console/people/${kate.id}/lock`, { until: '2h' })
      console.error(again.status, noticeIn(again), textIn(again, 'verdict'))
      const stale = await v.submit(page, `/console/people/${kate.id}/lock`, { until: '2h' })
      console.error(stale.status, noticeIn(stale))
      const un = await v.submit(again, `/console/people/${kate.id}/unlock`)
      console.error(un.status, noticeIn(un), textIn(un, 'verdict'))
      const temp = await v.submit(un, `/console/people/${kate.id}/temporary`, { valid: '24h' })
      console.error(temp.status, textIn(temp, 'secret'))
      const reload = await v.submit(un, `/console/people/${kate.id}/temporary`, { valid: '24h' })
      console.error(reload.status, noticeIn(reload))
      const p2 = await v.get(`/console/people/${kate.id}`)
      const set = await v.submit(p2, `/console/people/${kate.id}/details`, {
        email: kate.email,
        name: 'New <b>',
        role: '',
      })
      console.error(set.status, noticeIn(set))
      const set2 = await v.submit(p2, `/console/people/${kate.id}/details`, {
        email: kate.email,
        name: 'New <b>',
        role: 'editor',
      })
      console.error(set2.status, noticeIn(set2))
      const q = await v.get(`/console/people/${kate.id}/deactivate`)
      const de = await v.submit(q, `/console/people/${kate.id}/deactivate`)
      console.error(de.status, noticeIn(de), textIn(de, 'verdict'))
      const dq = await v.get(`/console/people/${kate.id}/delete`)
      const d1 = await v.submit(dq, `/console/people/${kate.id}/delete`, { email: 'x' })
      console.error(d1.status, noticeIn(d1), d1.text.match(/email-error">[^<]*/)?.[0])
      const d2 = await v.submit(dq, `/console/people/${kate.id}/delete`, { email: kate.email })
      console.error(d2.status, noticeIn(d2))
      const add = await v.get('/console/people/new')
      const a1 = await v.submit(add, '/console/people', {
        email: 'q',
        name: '',
        role: '',
        valid: '72h',
      })
      console.error(a1.status, noticeIn(a1))
      const a2 = await v.submit(add, '/console/people', {
        email: 'ann@example.com',
        name: 'Ann',
        role: '',
        valid: '72h',
      })
      console.error(a2.status, textIn(a2, 'secret'))
      const a3 = await v.submit(add, '/console/people', {
        email: 'ann@example.com',
        name: 'Ann',
        role: '',
        valid: '72h',
      })
      console.error(a3.status, noticeIn(a3))
      const h = await v.get('/console/history?since=30d')
      console.error(
        h.status,
        unescaped(h.text.replace(/[^]*<tbody/, '').replace(/<[^>]*>/g, ''))
          .replace(/\s+/g, ' ')
          .slice(0, 900),
      )
      const hb = await v.get('/console/history?since=abc')
      console.error(hb.status, noticeIn(hb))
      const u = await v.get('/console/people?search=unknown%40localhost')
      console.error(u.status, u.text.match(/<h2>.*/)?.[0])
      const n = await v.get('/console/nothing')
      console.error(n.status, n.text.slice(0, 80))
      console.error(
        service
          .logged()
          .filter(l => String(l.event).startsWith('admin'))
          .slice(-3),
      )
      void PASSWORD
    })
  })
}
