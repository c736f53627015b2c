export function plain(id, parameters) {
    return JSON.stringify({ id, parameters, inputs: [] });
}
export function withPicture(id, parameters, input, shape, picture) {
    const inputs = [{ name: input, datatype: "BYTES", shape,
            parameters: { binary_data_size: picture.length + 4 } }];
    const json = new TextEncoder().encode(JSON.stringify({ id, parameters, inputs }));
    const message = new Uint8Array(8 + json.length + picture.length);
    const view = new DataView(message.buffer);
    view.setUint32(0, json.length, true);
    message.set(json, 4);
    view.setUint32(4 + json.length, picture.length, true);
    message.set(picture, 8 + json.length);
    return message;
}
export function read(text) {
    return JSON.parse(text);
}
