const SHAPES = 8, BLOTCHES = 4;
function random(seed) {
    return () => {
        seed = (seed * 1664525 + 1013904223) >>> 0;
        return seed / 2 ** 32;
    };
}
function corners(kind, radius) {
    const around = (radii) => radii.map((r, i) => [r * Math.cos(2 * Math.PI * i / radii.length), r * Math.sin(2 * Math.PI * i / radii.length)]);
    const arm = radius * 0.36;
    if (kind === 2)
        return around(Array(4).fill(radius));
    if (kind === 3)
        return around(Array(3).fill(radius));
    if (kind === 5)
        return around([...Array(10).keys()].map(i => i % 2 === 0 ? radius : radius * 0.42));
    const points = [];
    for (let q = 0; q < 4; ++q) {
        for (const [x, y] of [[radius, -arm], [radius, arm], [arm, arm]]) {
            const c = Math.cos(q * Math.PI / 2), s = Math.sin(q * Math.PI / 2);
            points.push([x * c - y * s, x * s + y * c]);
        }
    }
    return points;
}
export class Film {
    side;
    canvas = document.createElement("canvas");
    ground = document.createElement("canvas");
    shapes = [];
    at;
    constructor(side = 512) {
        this.side = side;
        const next = random(7);
        this.canvas.width = this.canvas.height = side;
        this.ground.width = this.ground.height = BLOTCHES;
        const soft = this.ground.getContext("2d");
        for (let i = 0; i < BLOTCHES ** 2; ++i) {
            soft.fillStyle = `hsl(${next() * 360} 35% ${25 + next() * 20}%)`;
            soft.fillRect(i % BLOTCHES, Math.floor(i / BLOTCHES), 1, 1);
        }
        for (let i = 0; i < SHAPES; ++i) {
            const radius = side * (0.05 + 0.05 * next()), angle = next() * 2 * Math.PI, speed = side * 0.12;
            this.shapes.push({ kind: i % 6, radius, x: radius + next() * (side - 2 * radius), y: radius + next() * (side - 2 * radius),
                dx: Math.cos(angle) * speed, dy: Math.sin(angle) * speed, turn: angle,
                colour: `hsl(${i * 360 / SHAPES} 90% 75%)` });
        }
    }
    draw(now) {
        const passed = Math.min(now - (this.at ?? now), 0.2), to = this.canvas.getContext("2d");
        this.at = now;
        to.drawImage(this.ground, 0, 0, this.side, this.side);
        for (const shape of this.shapes) {
            this.move(shape, passed);
            this.paint(to, shape);
        }
    }
    move(shape, passed) {
        shape.x += shape.dx * passed;
        shape.y += shape.dy * passed;
        shape.turn += passed * 0.5;
        if (shape.x < shape.radius || shape.x > this.side - shape.radius)
            shape.dx = Math.sign(this.side / 2 - shape.x) * Math.abs(shape.dx);
        if (shape.y < shape.radius || shape.y > this.side - shape.radius)
            shape.dy = Math.sign(this.side / 2 - shape.y) * Math.abs(shape.dy);
    }
    paint(to, shape) {
        to.save();
        to.translate(shape.x, shape.y);
        to.rotate(shape.turn);
        to.fillStyle = to.strokeStyle = shape.colour;
        to.beginPath();
        if (shape.kind === 0)
            to.arc(0, 0, shape.radius, 0, 2 * Math.PI);
        else if (shape.kind === 1)
            to.arc(0, 0, shape.radius * 0.8, 0, 2 * Math.PI);
        else
            for (const [x, y] of corners(shape.kind, shape.radius))
                to.lineTo(x, y);
        to.closePath();
        if (shape.kind === 1) {
            to.lineWidth = shape.radius * 0.4;
            to.stroke();
        }
        else {
            to.fill();
        }
        to.restore();
    }
}
