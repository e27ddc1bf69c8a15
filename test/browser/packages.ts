// Debian's packages of the browsers, of the screen reader and of a reader of QR codes, each with a file that it installs.
export const PACKAGES = {
  chromium: '/usr/bin/chromium',
  'chromium-headless-shell': '/usr/bin/chromium-headless-shell',
  'chromium-driver': '/usr/bin/chromedriver',
  'firefox-esr': '/usr/bin/firefox-esr',
  'webkit2gtk-driver': '/usr/bin/WebKitWebDriver',
  xvfb: '/usr/bin/Xvfb',
  orca: '/usr/bin/orca',
  'at-spi2-core': '/usr/libexec/at-spi-bus-launcher',
  'dbus-daemon': '/usr/bin/dbus-daemon',
  'matchbox-window-manager': '/usr/bin/matchbox-window-manager',
  'zbar-tools': '/usr/bin/zbarimg',
}
