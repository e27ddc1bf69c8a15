// Debian's packages of the browsers, each with a file that it installs.
export const PACKAGES = {
  chromium: '/usr/bin/chromium',
  'chromium-driver': '/usr/bin/chromedriver',
  'firefox-esr': '/usr/bin/firefox-esr',
  'webkit2gtk-driver': '/usr/bin/WebKitWebDriver',
  xvfb: '/usr/bin/Xvfb',
}
