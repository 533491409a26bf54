"""The inspector over whole datasets: rows in, one table of facts out, a row each.

source.py finds files and cuts them into parts; rows.py measures a batch of rows with the pipeline (in a child of the
sandbox); output.py writes parts and the manifest; an engine (local.py, ray_engine.py) says where a part is worked on.
Every engine calls `engine.run_part` and writes what it gives, so the bytes are the same whichever it is.
"""
