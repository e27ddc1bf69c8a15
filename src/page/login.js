// Makes the pages more comfortable. They work without it, too.

const { lang } = document.documentElement
const exactTime = new Intl.DateTimeFormat(lang, { dateStyle: 'medium', timeStyle: 'short' })
const age = new Intl.RelativeTimeFormat(lang, { numeric: 'auto' })

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {string} [filter]
 * @param {ParentNode} [root]
 */
function all(tag, filter = '', root = document) {
  const found = /** @type {unknown} */ ([...root.querySelectorAll(`${tag}${filter}`)])
  return /** @type {HTMLElementTagNameMap[Tag][]} */ (found)
}

// Not every browser gives the focus to an element that is no field.
for (const text of [...all('h1', '[autofocus]'), ...all('p', '[autofocus]')]) text.focus()
all('input', '[type=password]').forEach(startPassword)
all('form').forEach(startForm)
all('button', '[data-wait]').forEach(startWait)

/**
 * Shows the password on demand, and warns of Caps Lock.
 * @param {HTMLInputElement} input
 */
function startPassword(input) {
  const [reveal] = all('button', `[aria-controls=${input.id}]`)
  const [capsLock] = all('span', `#${input.id}-caps-lock`)
  if (!reveal || !capsLock) return
  const setReveal = (isRevealed = false) => {
    const { selectionStart, selectionEnd } = input
    input.type = isRevealed ? 'text' : 'password'
    // Changing the type moves the cursor in some browsers.
    input.setSelectionRange(selectionStart, selectionEnd)
    reveal.setAttribute('aria-pressed', String(isRevealed))
  }
  reveal.hidden = false
  // The focus stays in the field.
  reveal.addEventListener('mousedown', event => event.preventDefault())
  reveal.addEventListener('click', () => setReveal(input.type === 'password'))
  // Browsers remember what is sent in a field of another type.
  input.form?.addEventListener('submit', () => setReveal())
  // The hint stays when the field loses the focus: nothing may move under a pointer that is pressed.
  input.addEventListener('keyup', event => {
    const isOn = event.getModifierState?.('CapsLock')
    capsLock.textContent = (isOn && capsLock.dataset.text) || ''
  })
}

/**
 * Checks the fields, and sends the form once.
 * @param {HTMLFormElement} form
 */
function startForm(form) {
  const [button] = all('button', ':not([type=button])', form)
  const label = button?.lastElementChild
  if (!button || !label) return
  const text = label.textContent
  const fields = all('input', '[aria-required]', form)
  // The `disabled` property would remove the focus.
  const setBusy = (isBusy = false) => {
    button.setAttribute('aria-disabled', String(isBusy))
    button.setAttribute('aria-busy', String(isBusy))
    label.textContent = (isBusy && button.dataset.busy) || text
  }
  // The page has texts of its own.
  form.noValidate = true
  form.addEventListener('submit', event => {
    const wrong = fields.filter(field => !showError(field))
    wrong[0]?.focus()
    const isSent = button.getAttribute('aria-busy') === 'true'
    if (isSent || wrong.length > 0) event.preventDefault()
    else setBusy(true)
  })
  for (const field of fields) field.addEventListener('input', () => showError(field, true))
  // The browser may show the page as it was left.
  addEventListener('pageshow', ({ persisted }) => persisted && setBusy())
}

/**
 * Says what is wrong with a field; while the user types, only that nothing is any more. True if nothing is.
 * @param {HTMLInputElement} field
 */
function showError(field, isTyping = false) {
  const [error] = all('p', `#${field.id}-error`)
  // The browser counts only what the user has typed, and not what a password manager has filled in.
  const isWrong = !field.validity.valid || [...field.value].length < field.minLength
  const { empty, wrong } = error?.dataset ?? {}
  const text = (field.value === '' ? empty : isWrong ? wrong : '') ?? ''
  if (!error || (isTyping && text !== '')) return text === ''
  field.setAttribute('aria-invalid', String(text !== ''))
  error.textContent = text
  return text === ''
}

/**
 * The button counts the seconds; screen readers read only the beginning and the end of the wait.
 * @param {HTMLButtonElement} button
 */
function startWait(button) {
  const { wait, waiting = '', over = '' } = button.dataset
  const label = /** @type {Element} */ (button.lastElementChild)
  const text = label.textContent
  const endsAt = Date.now() + Number(wait) * 1000
  const timer = setInterval(tick, 1000)
  const end = (sentence = '') => {
    clearInterval(timer)
    button.disabled = false
    label.textContent = text
    for (const notice of all('p', '#notice')) {
      notice.dataset.kind = 'information'
      notice.textContent = sentence
    }
  }
  function tick() {
    const seconds = Math.ceil((endsAt - Date.now()) / 1000)
    const time = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`
    if (seconds > 0) label.textContent = waiting.replace('{time}', time)
    else end(over)
  }
  button.disabled = true
  tick()
  // The wait is for one email. The service decides about another one.
  for (const email of all('input', '#email')) email.addEventListener('input', () => end())
}

// In the zone of the browser: "5 minutes ago", and a date after a week.
for (const time of all('time')) {
  const date = new Date(time.dateTime)
  const minutes = Math.floor((Date.now() - date.getTime()) / 60_000)
  const unit = minutes < 60 ? 'minute' : minutes < 1440 ? 'hour' : 'day'
  const count = Math.floor(minutes / { minute: 1, hour: 60, day: 1440 }[unit])
  time.title = exactTime.format(date)
  if (minutes < 1) time.textContent = time.dataset.now ?? ''
  else time.textContent = minutes < 10_080 ? age.format(-count, unit) : time.title
}
