// Tells the other windows of this browser that a user has logged in or out.

/** @typedef {'loggedIn' | 'loggedOut'} News */

const channel = openChannel()

/** Null where the browser refuses: Firefox does if all cookies are blocked. */
function openChannel() {
  try {
    return new BroadcastChannel('login')
  } catch {
    return null
  }
}

/** @param {News} news */
export function tellOtherWindows(news) {
  channel?.postMessage(news)
}

/** @param {(news: News) => void} listener */
export function hearOtherWindows(listener) {
  channel?.addEventListener('message', ({ data }) => listener(data))
}
