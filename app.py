"""Build the Gradio app and launch it, nothing else."""

from inspector.ui import calls

calls.start()  # before Gradio: the sandbox gets ready in its own process meanwhile

from inspector.backends import zerogpu  # noqa: E402, F401 - on such a Space it registers what wants a GPU
from inspector.ui import layout  # noqa: E402

demo = layout.build()

if __name__ == "__main__":
    demo.launch(**layout.launch_settings())
