// Tokens that are not as the service makes them. All that can be are signed by its key.

const DEEP = `${'['.repeat(2_000)}${']'.repeat(2_000)}`
const DEEPER = `${'['.repeat(200_000)}${']'.repeat(200_000)}`
const LONG = 'A'.repeat(1_000_000)
const HUGE = '9'.repeat(4_500)
/** JSON of other types than those of a token's members. */
const VALUES = ['null', 'true', '-1', '1e999', HUGE, '"x"', '""', '[]', '[null]', '{}', DEEP]
const NO_OBJECTS = [
  '',
  'x',
  '{',
  '{"a":',
  '\0',
  '\uFEFF{}',
  '{}{}',
  `{"a":${DEEP}`,
  DEEPER,
  ...VALUES,
]
const INHERITED = ['"__proto__"', '"constructor"', '"toString"', '"\\ud800"']

/** `others` may be accepted as well: a decoder is lenient, or the member does not count. `good` is well-formed. */
export function malformedTokens(
  token: string,
  signText: (header: string, claims: string) => string,
) {
  const [header = '', claims = '', signature = ''] = token.split('.')
  const [headerText, claimsText] = [header, claims].map(it =>
    Buffer.from(it, 'base64url').toString(),
  )
  if (!headerText || !claimsText) throw new Error('not a token')
  /** With this JSON in place of the member's. */
  const replace = (text: string, name: string, json: string) =>
    JSON.stringify({ ...JSON.parse(text), [name]: 'PLACE' }).replace('"PLACE"', () => json)
  const withHeader = (name: string, values: string[]) =>
    values.map(json => signText(replace(headerText, name, json), claimsText))
  const withClaim = (name: string, values: string[]) =>
    values.map(json => signText(headerText, replace(claimsText, name, json)))
  const algorithms = ['none', 'HS256', 'RS256', 'PS256', 'EdDSA', 'ES256K', 'es256']
  const notNumbers = VALUES.filter(json => json !== '1e999' && json !== HUGE)

  return {
    good: signText(headerText, claimsText),
    refused: [
      ...NO_OBJECTS.map(json => signText(json, claimsText)),
      ...NO_OBJECTS.map(json => signText(headerText, json)),
      ...withHeader('alg', [...VALUES, ...INHERITED, ...algorithms.map(name => `"${name}"`)]),
      ...withHeader('kid', [...VALUES, ...INHERITED, `"${LONG}"`]),
      ...withHeader('typ', [...VALUES, ...INHERITED, '"JWT"', '"rt+jwt"']),
      ...withClaim('exp', notNumbers),
      ...[...withClaim('iss', VALUES), ...withClaim('aud', [...VALUES, '[["x"]]'])],
      ...[
        '.',
        '..',
        '...',
        'a.b',
        'a.b.c',
        'a.b.c.d',
        '.'.repeat(100_000),
        LONG,
        '\ud800',
        'é.é.é',
      ],
      ...[`.${token}`, `${token}.`, `${token}.${signature}`, `${header}..${signature}`],
      ...[
        `${header}.${claims}`,
        `${header}.${claims}.`,
        `.${claims}.${signature}`,
        `..${signature}`,
      ],
      ...[`${LONG}.${claims}.${signature}`, `${header}.${LONG}.${signature}`],
      ...[`${header}.${claims}.${LONG}`, `${header}.${claims}.é`, `${header}.${claims}.\ud800`],
    ],
    others: [
      ...['iat', 'nbf', 'sid', 'jti', 'email', 'x'].flatMap(name => withClaim(name, VALUES)),
      ...['b64', 'crit', 'cty', 'x'].flatMap(name => withHeader(name, [...VALUES, 'false'])),
      ...[...withClaim('exp', ['1e300', '1e999', HUGE]), ...withClaim('x', [DEEPER, `"${LONG}"`])],
      ...[`${token}=`, `${token}\n`, ` ${token}`, `${header}=.${claims}.${signature}`],
    ],
  }
}
