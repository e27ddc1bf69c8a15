// Fastify with @fastify/jwt, bcrypt and pg, as their READMEs show.
import fastifyJwt from '@fastify/jwt'
import bcrypt from 'bcrypt'
import Fastify from 'fastify'
import { connectUsersTable } from './users-table.ts'

const SECRET = 'a secret of at least thirty-two characters'
const pool = await connectUsersTable()
const app = Fastify()
await app.register(fastifyJwt, { secret: SECRET })

const body = {
  type: 'object',
  required: ['email', 'password'],
  properties: { email: { type: 'string' }, password: { type: 'string' } },
}

app.post<{ Body: { email: string; password: string } }>(
  '/login',
  { schema: { body } },
  async (request, reply) => {
    const { email, password } = request.body
    const { rows } = await pool.query('select id, password_hash from users where email = $1', [
      email,
    ])
    const [user] = rows
    if (!user || !(await bcrypt.compare(password, user.password_hash))) {
      return reply.code(401).send({ error: 'Invalid email or password' })
    }
    return { token: app.jwt.sign({ sub: user.id }, { expiresIn: '1h' }) }
  },
)

await app.listen({ port: Number(process.env.PORT), host: '127.0.0.1' })
