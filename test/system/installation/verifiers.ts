// Runs the example verifiers of all languages by one protocol. They reach the service through a gate that can be shut.
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { findMachineNode } from '../../support/old-node.ts'
import { example, type makeRecipeFolder } from '../../support/recipes.ts'

/**
 * Each program reads lines: an id, the seconds by which its clock is moved, and tokens, which it verifies at once. It prints
 * the id with the outcomes: the user's id, "refused" for an error that the example documents, or any other error.
 */
const IN_NODE = `import { createInterface } from 'node:readline'
import { createVerifier } from './verifier.js'
let aheadMs = 0
for (const clock of [Date, performance]) {
  const now = clock.now.bind(clock)
  clock.now = () => now() + aheadMs
}
const { verify } = createVerifier('https://login.example.com', { maxSilenceMs: Infinity })
const outcomeOf = token =>
  verify(token).then(claims => claims?.sub ?? 'refused', error =>
    error.message === 'the keys cannot be loaded' ? 'refused' : String(error.stack))
createInterface(process.stdin).on('line', async line => {
  const [id, seconds, tokens] = JSON.parse(line)
  aheadMs += seconds * 1000
  console.log(JSON.stringify([id, await Promise.all(tokens.map(outcomeOf))]))
})
`
const IN_PYTHON = `import concurrent.futures, json, math, sys, threading, time, traceback
import jwt
from verifier import FeedSilent, Verifier
ahead, real = 0, time.monotonic
time.monotonic = lambda: real() + ahead
verifier = Verifier("https://login.example.com", max_silence=math.inf)

def outcome_of(token):
    try:
        return verifier.verify(token)["sub"]
    except (jwt.PyJWTError, FeedSilent):
        return "refused"
    except BaseException:
        return traceback.format_exc()[-1000:]

def answer(id, tokens):
    with concurrent.futures.ThreadPoolExecutor(64) as threads:
        outcomes = list(threads.map(outcome_of, tokens))
    sys.stdout.write(json.dumps([id, outcomes]) + "\\n")
    sys.stdout.flush()

for line in sys.stdin:
    id, seconds, tokens = json.loads(line)
    ahead += seconds
    threading.Thread(target=answer, args=(id, tokens), daemon=True).start()
`
const IN_GO = `package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

func outcomeOf(token string) (outcome string) {
	defer func() {
		if fault := recover(); fault != nil {
			outcome = fmt.Sprint("panic: ", fault)
		}
	}()
	claims, err := Verify(token)
	if err != nil {
		return "refused"
	}
	return claims.Subject
}

func main() {
	var printing sync.Mutex
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<27)
	for lines.Scan() {
		var seconds time.Duration
		var id int
		var tokens []string
		if err := json.Unmarshal(lines.Bytes(), &[]interface{}{&id, &seconds, &tokens}); err != nil {
			panic(err)
		}
		go func() {
			mutex.Lock()
			loaded, tried = loaded.Add(-seconds*time.Second), tried.Add(-seconds*time.Second)
			mutex.Unlock()
			outcomes := make([]string, len(tokens))
			var all sync.WaitGroup
			for i := range tokens {
				all.Add(1)
				go func(i int) { defer all.Done(); outcomes[i] = outcomeOf(tokens[i]) }(i)
			}
			all.Wait()
			printed, _ := json.Marshal([]interface{}{id, outcomes})
			printing.Lock()
			defer printing.Unlock()
			fmt.Println(string(printed))
		}()
	}
}
`

type Folder = Awaited<ReturnType<typeof makeRecipeFolder>>

export type Verifier = Awaited<ReturnType<typeof startVerifier>>

export const LANGUAGES = ['Node', 'Python', 'Go'] as const

/** Starts the example of a language, with the address of the folder as its issuer. It accepts tokens however long the feed is silent. */
export async function startVerifier(language: (typeof LANGUAGES)[number], folder: Folder) {
  const command = await place[language](folder)
  const child = folder.start(command)
  child.stderr.pipe(process.stderr)
  const waiting = new Map<number, (outcomes: string[]) => void>()
  createInterface(child.stdout).on('line', line => {
    const [id, outcomes] = JSON.parse(line)
    waiting.get(id)?.(outcomes)
  })
  let calls = 0
  return {
    /** The outcomes, after the clock has moved. */
    verify: (tokens: unknown[], afterSeconds = 0) =>
      new Promise<string[]>(resolve => {
        const id = ++calls
        waiting.set(id, resolve)
        child.stdin.write(`${JSON.stringify([id, afterSeconds, tokens])}\n`)
      }),
    async stop() {
      child.kill('SIGKILL')
      await once(child, 'exit')
      if (language === 'Go') await rm(join(command[0] ?? '', '..'), { recursive: true })
    },
  }
}

const place: Record<(typeof LANGUAGES)[number], (folder: Folder) => Promise<string[]>> = {
  async Node(folder) {
    await folder.write('main.js', IN_NODE)
    return [findMachineNode(), 'main.js']
  },
  async Python(folder) {
    await folder.write('verifier.py', example('verifier.py'))
    await folder.write('main.py', IN_PYTHON)
    return ['/usr/bin/python3', 'main.py']
  },
  async Go(folder) {
    // Programs cannot be run from every folder in memory.
    const program = join(await mkdtemp(join(tmpdir(), 'login-go-')), 'verify')
    // Debian has version 4, without a number in its path.
    await folder.write('verify.go', example('verifier.go').replace('jwt/v5', 'jwt'))
    await folder.write('main.go', IN_GO)
    await folder.run(['go', 'build', '-o', program, 'main.go', 'verify.go'], {
      GO111MODULE: 'off',
      GOPATH: '/usr/share/gocode',
      GOCACHE: join(folder.path, 'cache'),
      GOFLAGS: '-buildvcs=false',
    })
    return [program]
  },
}

/** Passes connections on to a service, accepts them and stays silent, or cuts them. */
export async function openGate() {
  let state: 'open' | 'silent' | 'cutting' = 'open'
  let target = ''
  let connections = 0
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    connections++
    sockets.add(socket.on('error', () => {}))
    socket.on('close', () => sockets.delete(socket))
    if (state === 'cutting') socket.destroy()
    if (state !== 'open') return
    const { hostname, port } = new URL(target)
    const other = connect(Number(port), hostname).on('error', () => socket.destroy())
    socket.on('close', () => other.destroy())
    socket.pipe(other).pipe(socket)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return {
    address: `https://localhost:${(server.address() as AddressInfo).port}`,
    connections: () => connections,
    leadTo: (url: string) => {
      target = url
    },
    set(next: typeof state) {
      state = next
      for (const socket of sockets) socket.destroy()
    },
    async stop() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}
