// Lists that are read page by page, so that a long one is never held in memory as a whole.

const PAGE_ITEMS = 1_000

/** `next` is where the next page begins; null at the end. A page may be empty before the end. */
type ListPage<T, Position> = { items: T[]; next: Position | null }

/** The items of each page that has some, until `limit` items were read. */
export async function* pagesOf<T, Position>(
  read: (from: Position | null, limit: number) => Promise<ListPage<T, Position>>,
  limit = Number.MAX_SAFE_INTEGER,
): AsyncGenerator<T[]> {
  let left = limit
  let from: Position | null = null
  do {
    const page: ListPage<T, Position> = await read(from, Math.min(left, PAGE_ITEMS))
    if (page.items.length > 0) yield page.items
    left -= page.items.length
    from = page.next
  } while (from !== null && left > 0)
}

/** The page of a list that continues after the id of its last item. */
export function toPage<T extends { id: unknown }>(items: T[], limit: number): ListPage<T, T['id']> {
  return { items, next: items.length < limit ? null : (items.at(-1)?.id ?? null) }
}
