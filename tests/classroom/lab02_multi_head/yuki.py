# Yuki: prints without end.
while True:
    print('x' * 1000)
