"""The kernels of a program as one artifact: a plan of their memory, and one native call that runs them in order.

Read compose.py first. Imports tensor, codegen and runtime.
"""
