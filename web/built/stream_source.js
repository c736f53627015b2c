import { Film } from "./film.js";
export function ofFilm() {
    const film = new Film();
    return { picture: () => { film.draw(performance.now() / 1000); return film.canvas; }, stop: () => { } };
}
export async function ofCamera() {
    if (navigator.mediaDevices === undefined) {
        throw new Error("browsers give the camera only to pages of https or of localhost");
    }
    const stream = await navigator.mediaDevices.getUserMedia({ video: true });
    const video = document.createElement("video");
    video.srcObject = stream;
    video.muted = true;
    await video.play();
    return { picture: () => video.videoWidth > 0 ? video : undefined,
        stop: () => stream.getTracks().forEach(track => track.stop()) };
}
