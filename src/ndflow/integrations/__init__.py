"""The same maps inside other people's tools: scikit-learn, TorchIO and MONAI.

Each module needs its extra, `sklearn` and so on, and is imported by name,
such as `ndflow.integrations.sklearn`: importing ndflow imports none of them.
"""
