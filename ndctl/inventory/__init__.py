"""What the user wants. `loader.load(path)`, `loader.load_many(paths)`, `static.static_cluster(loaded)`,
`json_schema.json_schema()`."""
