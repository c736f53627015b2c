"""Short ways to say what the client tests send and get."""

import numpy as np
from tritonclient.utils import np_to_triton_dtype


def tensor(module, name, values, **binary):
    """`values` as an input of one of Triton's clients; HTTP takes binary_data=False."""
    tensor = module.InferInput(name, list(values.shape), np_to_triton_dtype(values.dtype))
    tensor.set_data_from_numpy(values, **binary)
    return tensor


def digits(count=1):
    """`count` digits of no particular shape, all the same."""
    return np.tile(np.arange(64, dtype=np.float32) % 17, (count, 1))


def infer(triton, model, inputs, **options):
    """`inputs` by name; the outputs by name."""
    result = triton.client.infer(
        model, [tensor(triton.module, name, values) for name, values in inputs.items()], **options)
    response = result.get_response()
    outputs = response["outputs"] if isinstance(response, dict) else response.outputs
    names = [output["name"] if isinstance(output, dict) else output.name for output in outputs]
    return {name: result.as_numpy(name) for name in names}
