"""What is asked of a page, in the page's own language."""

# Each chart's name with how many marks stand in each of its groups, the drawn ones alone.
MARKS = """Object.fromEntries([...document.querySelectorAll('.drawing')].map(drawing => [
  drawing.dataset.spec.replace('spec-', ''),
  [...drawing.querySelectorAll('g[class*="role-mark"]')].map(group => [
    group.getAttribute('class').split(' ')[0], group.childElementCount]),
]))"""

# The element that has the focus: its tag, whether it can be seen, and whether it shows its focus.
FOCUSED = """(() => {
  const at = document.activeElement, box = at.getBoundingClientRect();
  const style = getComputedStyle(at);
  return {
    tag: at.tagName, to: at.getAttribute('href'), text: at.textContent.trim().slice(0, 60),
    seen: box.width > 0 && box.height > 0 && box.right > 0 && box.left < innerWidth,
    marked: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2,
  };
})()"""

# What reaches beyond the right edge of the screen and cannot be scrolled to.
OVERFLOWING = """[...document.querySelectorAll('body *')].filter(element => {
  const box = element.getBoundingClientRect();
  const edge = document.documentElement.clientWidth + 1;
  if (box.right <= edge || !box.width) return false;
  for (let up = element.parentElement; up; up = up.parentElement) {
    if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(up).overflowX)) return false;
  }
  return true;
}).map(element => `${element.tagName} ${element.textContent.trim().slice(0, 40)}`)"""

# Text whose contrast with what lies behind it is below 4.5 (3 where it is large), after WCAG 2.
FAINT = """(() => {
  const numbers = color => (color.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (let up = element; up; up = up.parentElement) {
      const color = numbers(getComputedStyle(up).backgroundColor);
      if (color.length && (color.length < 4 || color[3] === 1)) return color;
    }
    return matchMedia('(prefers-color-scheme: dark)').matches ? [0, 0, 0] : [255, 255, 255];
  };
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    const text = walk.currentNode.textContent.trim();
    if (!text || element.closest('svg, script, style')) continue;
    if (!element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(numbers(style.color)), light(behind(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || size >= 18.66 && style.fontWeight >= 700;
    if (ratio < (large ? 3 : 4.5)) found.push(`${ratio.toFixed(2)}: ${text.slice(0, 40)}`);
  }
  return found;
})()"""

# Colours of the page as they are computed: of what lies behind, and of a chart's axis.
COLORS = """({
  page: getComputedStyle(document.body).backgroundColor,
  axis: getComputedStyle(document.querySelector('.drawing .role-axis-label text')).fill,
})"""

# Whether what a link leads to is on the screen, with nothing folded over it.
IS_SHOWN = """(id => {
  const box = document.getElementById(id).getBoundingClientRect();
  return box.height > 0 && box.top < innerHeight && box.bottom > 0;
})"""
