// Feathers with local authentication on Koa and Knex, as its guide shows.
import { AuthenticationService, JWTStrategy } from '@feathersjs/authentication'
import { LocalStrategy } from '@feathersjs/authentication-local'
import { feathers } from '@feathersjs/feathers'
import { KnexService } from '@feathersjs/knex'
import { bodyParser, errorHandler, koa, rest } from '@feathersjs/koa'
import knex from 'knex'
import { connectUsersTable } from './users-table.ts'

const pool = await connectUsersTable()
await pool.end()
const database = knex({ client: 'pg', connection: process.env.DATABASE_URL ?? '' })
const app = koa(feathers())

app.set('authentication', {
  entity: 'user',
  service: 'users',
  secret: 'a secret of at least thirty-two characters',
  authStrategies: ['jwt', 'local'],
  jwtOptions: { audience: 'https://localhost', algorithm: 'HS256', expiresIn: '1h' },
  local: {
    usernameField: 'email',
    passwordField: 'password',
    entityPasswordField: 'password_hash',
  },
})
app.use(errorHandler())
app.use(bodyParser())
app.configure(rest())
app.use('users', new KnexService({ Model: database, name: 'users' }))

const authentication = new AuthenticationService(app)
authentication.register('jwt', new JWTStrategy())
authentication.register('local', new LocalStrategy())
app.use('authentication', authentication)

await app.listen(Number(process.env.PORT), '127.0.0.1')
