// The boxes of an answer, and how they are drawn over its picture.

import type { Answer } from "./session.js";
import type { Tensor } from "./wire.js";

export interface Box { box: number[]; label: string }

const LEAST_SCORE = 0.3;
export const BOX_COLOUR = "#ff3";

// Boxes [.., n, 4] as x0, y0, x1, y1 in fractions of the picture; scores and classes [.., n] may be absent.
export function boxesOf(answer: Answer): Box[] {
  const numbers = (name: string): number[] => (answer.outputs.get(name) as Tensor | undefined)?.data.map(Number) ?? [];
  const corners = numbers("boxes"), scores = numbers("scores"), classes = numbers("classes");
  const found: Box[] = [];
  for (let i = 0; 4 * i + 3 < corners.length; ++i) {
    const score = scores[i] ?? 1;
    if (score < LEAST_SCORE) continue;
    found.push({ box: corners.slice(4 * i, 4 * i + 4), label: `${classes[i] ?? ""} ${score.toFixed(2)}` });
  }
  return found;
}

export function drawBoxes(to: CanvasRenderingContext2D, picture: CanvasImageSource, boxes: Box[]): void {
  const { width, height } = to.canvas;
  to.drawImage(picture, 0, 0, width, height);
  to.lineWidth = 3;
  to.strokeStyle = to.fillStyle = BOX_COLOUR;
  to.font = "18px sans-serif";
  for (const { box: [x0, y0, x1, y1], label } of boxes) {
    to.strokeRect(x0! * width, y0! * height, (x1! - x0!) * width, (y1! - y0!) * height);
    to.fillText(label, x0! * width, y0! * height - 4);
  }
}
