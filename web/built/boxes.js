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
        found.push({ box: corners.slice(4 * i, 4 * i + 4), label: `${classes[i] ?? ""} ${score.toFixed(2)}` });
    }
    return found;
}
export function drawBoxes(to, picture, boxes) {
    const { width, height } = to.canvas;
    to.drawImage(picture, 0, 0, width, height);
    to.lineWidth = 3;
    to.strokeStyle = to.fillStyle = BOX_COLOUR;
    to.font = "18px sans-serif";
    for (const { box: [x0, y0, x1, y1], label } of boxes) {
        to.strokeRect(x0 * width, y0 * height, (x1 - x0) * width, (y1 - y0) * height);
        to.fillText(label, x0 * width, y0 * height - 4);
    }
}
