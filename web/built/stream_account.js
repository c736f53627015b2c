const REMEMBERED = 100, MOST_SECONDS = 120;
const percentile = (sorted, p) => sorted[Math.min(sorted.length - 1, Math.floor(p * sorted.length))] ?? null;
export class Account {
    answered = 0;
    sent = 0;
    size;
    seconds = [];
    latencies = [];
    lately = [];
    fresh = [];
    missed = 0;
    droppedBefore = 0;
    add(onTime, answer) {
        ++this.answered;
        if (!onTime)
            ++this.missed;
        this.lately = [...this.lately, onTime].slice(-REMEMBERED);
        if (answer === undefined || answer.error !== undefined)
            return;
        this.latencies = [...this.latencies, answer.latency].slice(-REMEMBERED);
        this.fresh.push(answer.latency * 1000);
        this.size = answer.size;
    }
    close(at, dropped, asked, mbps) {
        const sorted = this.fresh.sort((a, b) => a - b);
        this.seconds.push({ at, p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99), size: sorted.length > 0 ? this.size ?? null : null,
            asked: asked ?? null, mbps: mbps ?? null, dropped: dropped - this.droppedBefore, missed: this.missed });
        if (this.seconds.length > MOST_SECONDS)
            this.seconds.shift();
        this.fresh = [];
        this.missed = 0;
        this.droppedBefore = dropped;
    }
    get median() { return [...this.latencies].sort((a, b) => a - b)[this.latencies.length >> 1]; }
    get missRate() { return this.lately.filter(onTime => !onTime).length / Math.max(this.lately.length, 1); }
}
