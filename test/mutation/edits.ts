// The small changes that a mutant of a TypeScript file may have; those in its SQL are in sql-edits.ts.
import { type Node, type SourceFile, SyntaxKind } from 'typescript/unstable/ast'
import * as is from 'typescript/unstable/ast/is'
import { bothWays, type Edit, otherNumber, sqlEdits } from './sql-edits.ts'

const OPERATORS = bothWays('< <=', '> >=', '=== !==', '&& ||', '+ -', '* /')
const METHODS = bothWays('min max', 'some every')
/** Returning nothing instead of these changes hardly anything, or is changed as a value. */
const EMPTY = ['null', 'undefined', 'true', 'false']

/** The changes in a node and all that it contains. */
export function editsIn(node: Node, source: SourceFile): Edit[] {
  if (is.isTypeNode(node) || is.isImportDeclaration(node) || is.isTypeAliasDeclaration(node))
    return []
  const edits = editsAt(node, source)
  node.forEachChild(child => {
    edits.push(...editsIn(child, source))
  })
  return edits
}

function editsAt(node: Node, source: SourceFile): Edit[] {
  const textOf = (part: Node) => part.getText(source)
  const change = (part: Node, text: string | undefined) =>
    text === undefined ? [] : [{ from: part.getStart(source), to: part.end, text }]

  if (is.isIfStatement(node) || is.isWhileStatement(node)) return negate(node.expression)
  if (is.isConditionalExpression(node)) return negate(node.condition)
  if (isNegation(node)) return change(node, textOf(node).slice(1))
  if (is.isBinaryExpression(node)) {
    const operator = textOf(node.operatorToken)
    if (operator === '??') return change(node, textOf(node.right))
    return change(node.operatorToken, OPERATORS.get(operator))
  }
  if (is.isExpressionStatement(node)) {
    const { expression } = node
    const isAssignment = is.isBinaryExpression(expression)
    const hasEffect =
      is.isCallExpression(expression) || is.isAwaitExpression(expression) || isAssignment
    return hasEffect ? change(node, ';') : []
  }
  if (is.isReturnStatement(node) && node.expression) {
    return EMPTY.includes(textOf(node.expression)) ? [] : change(node, 'return undefined')
  }
  if (is.isCallExpression(node) && is.isPropertyAccessExpression(node.expression)) {
    const { name, expression } = node.expression
    if (textOf(name) === 'where') return [{ from: expression.end, to: node.end, text: '' }]
    return change(name, METHODS.get(textOf(name)))
  }
  if (is.isNumericLiteral(node)) return change(node, otherNumber(textOf(node)))
  if (node.kind === SyntaxKind.TrueKeyword) return change(node, 'false')
  if (node.kind === SyntaxKind.FalseKeyword) return change(node, 'true')
  if (is.isTaggedTemplateExpression(node) && textOf(node.tag) === 'sql') {
    const { from, text } = masked(node.template)
    return sqlEdits(text).map(edit => ({ ...edit, from: from + edit.from, to: from + edit.to }))
  }
  return []

  /** An equality and a negation have a mutant of their own that does it. */
  function negate(condition: Node): Edit[] {
    const isEquality =
      is.isBinaryExpression(condition) && /^[!=]/.test(textOf(condition.operatorToken))
    if (isEquality || isNegation(condition)) return []
    return change(condition, `!(${textOf(condition)})`)
  }

  /** The text of a template, in which each expression is replaced by as many signs. */
  function masked(template: Node): { from: number; text: string } {
    const from = template.getStart(source)
    let text = textOf(template)
    template.forEachChild(span => {
      span.forEachChild(part => {
        if (textOf(part).startsWith('}')) return
        const [begin, end] = [part.getStart(source) - from, part.end - from]
        text = text.slice(0, begin) + '§'.repeat(end - begin) + text.slice(end)
      })
    })
    return { from, text }
  }
}

function isNegation(node: Node): boolean {
  return is.isPrefixUnaryExpression(node) && node.operator === SyntaxKind.ExclamationToken
}
