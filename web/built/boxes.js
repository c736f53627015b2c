const LEAST_SCORE = 0.3;
export const BOX_COLOUR = "#ff3";
export function boxesOf(answer) {
    const numbers = (name) => answer.outputs.get(name)?.data.map(Number) ?? [];
    const corners = numbers("boxes"), scores = numbers("scores"), classes = numbers("classes");
    const found = [];
    for (let i = 0; 4 * i + 3 < corners.length; ++i) {
        const score = scores[i] ?? 1;
        if (score < LEAST_SCORE)
            continue;
        found.push({ box: corners.slice(4 * i, 4 * i + 4), label: `${classes[i] === undefined ? "" : `class ${classes[i]}, `}${(100 * score).toFixed(0)} %` });
    }
    return found;
}
const TEXT_PX = 28;
function free(place, taken, height) {
    const over = (a, b) => a.x < b.x + b.wide && b.x < a.x + a.wide && Math.abs(a.y - b.y) < TEXT_PX;
    for (let y = place.y; y + TEXT_PX <= height; y += TEXT_PX) {
        const at = { ...place, y };
        if (!taken.some(other => over(at, other)))
            return at;
    }
    return undefined;
}
export function drawBoxes(to, picture, boxes) {
    const { width, height } = to.canvas;
    to.drawImage(picture, 0, 0, width, height);
    to.lineWidth = 3;
    to.font = `600 ${TEXT_PX - 6}px sans-serif`;
    const taken = [];
    for (const { box: [x0, y0, x1, y1], label } of boxes) {
        to.strokeStyle = BOX_COLOUR;
        to.strokeRect(x0 * width, y0 * height, (x1 - x0) * width, (y1 - y0) * height);
        const wide = to.measureText(label).width + 8;
        const at = free({ x: Math.max(0, Math.min(x0 * width, width - wide)), y: Math.max(0, y0 * height - TEXT_PX), wide }, taken, height);
        if (at === undefined)
            continue;
        taken.push(at);
        to.fillStyle = "#000b";
        to.fillRect(at.x, at.y, wide, TEXT_PX);
        to.fillStyle = BOX_COLOUR;
        to.fillText(label, at.x + 4, at.y + TEXT_PX - 7);
    }
}
