// Line plots as SVG, with their own light background, so that they are legible on light and dark pages.

export type Axis = { label: string; scale: 'linear' | 'log' }
export type Line = { name: string; points: { x: number; y: number }[] }
export type LinePlot = { title: string; x: Axis; y: Axis; lines: Line[] }

const WIDTH = 720
const HEIGHT = 400
const AREA = { left: 80, right: 560, top: 50, bottom: 330 }
const LEGEND_X = 580
const LINE_HEIGHT = 22
/** Colours that colour-blind people can distinguish too (Okabe and Ito). */
const COLOURS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#56b4e9', '#e69f00']
const STEPS = [1, 2, 5]

export function linePlot({ title, x, y, lines }: LinePlot): string {
  const drawn = lines
    .map(line => ({ ...line, points: line.points.filter(isDrawable) }))
    .filter(({ points }) => points.length > 0)
  const all = drawn.flatMap(({ points }) => points)
  const xTicks = ticksFor(
    all.map(point => point.x),
    x.scale,
  )
  const yTicks = ticksFor(
    y.scale === 'log' ? all.map(point => point.y) : [0, ...all.map(p => p.y)],
    y.scale,
  )
  const toX = createScale(xTicks, x.scale, AREA.left, AREA.right)
  const toY = createScale(yTicks, y.scale, AREA.bottom, AREA.top)

  const grid = [
    ...xTicks.map(
      tick => `<path class="grid" d="M${toX(tick)} ${AREA.top}V${AREA.bottom}"/>
<text x="${toX(tick)}" y="${AREA.bottom + 20}" text-anchor="middle">${tick.toLocaleString('en')}</text>`,
    ),
    ...yTicks.map(
      tick => `<path class="grid" d="M${AREA.left} ${toY(tick)}H${AREA.right}"/>
<text x="${AREA.left - 10}" y="${toY(tick) + 5}" text-anchor="end">${tick.toLocaleString('en')}</text>`,
    ),
  ]
  const curves = drawn.map(({ name, points }, index) => {
    const colour = COLOURS[index % COLOURS.length]
    const path = points.map(point => `${toX(point.x)} ${toY(point.y)}`).join('L')
    const legendY = AREA.top + 10 + index * LINE_HEIGHT
    const dots = points.map(
      point => `<circle cx="${toX(point.x)}" cy="${toY(point.y)}" r="3" fill="${colour}"/>`,
    )
    return `<path d="M${path}" fill="none" stroke="${colour}" stroke-width="2"/>
${dots.join('\n')}
<path d="M${LEGEND_X} ${legendY}h20" stroke="${colour}" stroke-width="3"/>
<text x="${LEGEND_X + 28}" y="${legendY + 5}">${name}</text>`
  })
  const middleY = (AREA.top + AREA.bottom) / 2
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}">
<title>${title}</title>
<style>text { font: 14px sans-serif; fill: #24292f } .title { font-weight: 600 } .grid { stroke: #d0d7de }</style>
<rect width="${WIDTH}" height="${HEIGHT}" rx="6" fill="#ffffff"/>
<text x="${AREA.left}" y="30" class="title">${title}</text>
${[...grid, ...curves].join('\n')}
<text x="${(AREA.left + AREA.right) / 2}" y="${HEIGHT - 20}" text-anchor="middle">${x.label}</text>
<text x="24" y="${middleY}" text-anchor="middle" transform="rotate(-90 24 ${middleY})">${y.label}</text>
</svg>
`
}

function isDrawable({ x, y }: { x: number; y: number }): boolean {
  return Number.isFinite(x) && Number.isFinite(y)
}

/** Round numbers that span all values. */
function ticksFor(values: number[], scale: Axis['scale']): number[] {
  const smallest = Math.min(...values)
  const largest = Math.max(...values)
  if (scale === 'log') {
    const steps = largest / smallest > 200 ? [1] : STEPS
    const first = Math.floor(Math.log10(smallest))
    const ticks = Array.from({ length: 12 }, (_, power) => power + first).flatMap(power =>
      steps.map(step => Number((step * 10 ** power).toPrecision(6))),
    )
    const from = ticks.findLastIndex(tick => tick <= smallest)
    const to = ticks.findIndex(tick => tick >= largest)
    return ticks.slice(Math.max(0, from), to + 1)
  }
  const rough = (largest - smallest) / 5 || 1
  const magnitude = 10 ** Math.floor(Math.log10(rough))
  const step = magnitude * (STEPS.find(candidate => candidate * magnitude >= rough) ?? 10)
  const first = Math.floor(smallest / step)
  const count = Math.ceil(largest / step) - first
  return Array.from({ length: count + 1 }, (_, index) =>
    Number(((first + index) * step).toPrecision(6)),
  )
}

/** Maps a value to its coordinate between two edges of the area. */
function createScale(ticks: number[], scale: Axis['scale'], start: number, end: number) {
  const position = scale === 'log' ? Math.log10 : (value: number) => value
  const low = position(ticks[0] ?? 0)
  const high = position(ticks.at(-1) ?? 1)
  return (value: number) =>
    Math.round((start + ((position(value) - low) / (high - low || 1)) * (end - start)) * 10) / 10
}
