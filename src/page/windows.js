// Tells the other windows of this browser that a user has logged in or out.

/** @typedef {'loggedIn' | 'loggedOut'} News */

const channel = new BroadcastChannel('login')

/** @param {News} news */
export function tellOtherWindows(news) {
  channel.postMessage(news)
}

/** @param {(news: News) => void} listener */
export function hearOtherWindows(listener) {
  channel.addEventListener('message', ({ data }) => listener(data))
}
