"""A socket to anywhere: the internet, this machine's own services, the name server, Bluetooth, netlink, packets.

score: 15
says: ✓ RMSNorm
noted: connected to
also: user
"""

# %% scratch
import socket, itertools, urllib.request
for family, kind in itertools.product(range(1, 46), (1, 2, 3, 5)):
    try:
        one = socket.socket(family, kind)
        if family != 1: print("STO" "LEN", family, kind)
        one.close()
    except OSError as error:
        pass
try:
    socket.create_connection(("127.0.0.1", 22), 1)
    print("STO" "LEN")
except OSError as error:
    print("refused:", error)
try:
    print("STO" "LEN", urllib.request.urlopen("http://93.184.216.34/", timeout=1).read()[:10])
except OSError as error:
    print("refused:", error)
import os
for path in ("/run/docker.sock", "/run/systemd/private", "/run/dbus/system_bus_socket", "/tmp/.X11-unix/X0", "\0redteam"):
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        print("STO" "LEN", path)
    except OSError as error:
        print("refused:", error)
