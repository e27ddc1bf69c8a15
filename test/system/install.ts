// Installs what the suites of this folder need.
import './cluster/install.ts'
import './installation/install.ts'
