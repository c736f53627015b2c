// uplot.js beside this is uPlot as npm has it, made a module (scripts/web.sh).
import uPlot from "../.deps/npm/uplot@1.6.32/package/dist/uPlot.js";
export default uPlot;
