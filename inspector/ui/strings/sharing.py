"""Strings of what is taken away and shared: exports made by the server, stored states, short links, embedding."""

ENGLISH = {
    "export_parquet": "table as Parquet",
    "export_report": "report (HTML, one file)",
    "export_report_both": "report of A and this one (HTML)",
    "export_reproduce": "code for transformers alone, same ids (zip)",
    "export_pin": "pytest file that pins this input (zip)",
    "export_making": "making the file …",
}

CHINESE = {
    "export_parquet": "表格(Parquet)",
    "export_report": "报告(HTML,单个文件)",
    "export_report_both": "A 与此项的对比报告(HTML)",
    "export_reproduce": "仅用 transformers 得到相同 id 的代码(zip)",
    "export_pin": "固定此输入的 pytest 文件(zip)",
    "export_making": "正在生成文件……",
}
