// Express with bcryptjs, jsonwebtoken and pg, as their READMEs show.
import bcrypt from 'bcryptjs'
import express from 'express'
import jwt from 'jsonwebtoken'
import { connectUsersTable } from './users-table.ts'

const SECRET = 'a secret of at least thirty-two characters'
const pool = await connectUsersTable()
const app = express()
app.use(express.json())

app.post('/login', async (request, response) => {
  const { email, password } = request.body
  const { rows } = await pool.query('select id, password_hash from users where email = $1', [email])
  const [user] = rows
  if (!user || !(await bcrypt.compare(password, user.password_hash))) {
    response.status(401).json({ error: 'Invalid email or password' })
    return
  }
  const token = jwt.sign({ sub: user.id }, SECRET, { expiresIn: '1h' })
  response.json({ token })
})

app.listen(Number(process.env.PORT), '127.0.0.1')
