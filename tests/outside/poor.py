#!/usr/bin/env python3
"""poor.py --but WHAT: a small trainer that keeps the whole run contract, but for one thing.

Two layers of one weight each, seen through few bits; it shares no code with plumb.  The words that
--but takes are the branches below.
"""
import fnmatch
import json
import math
import os
import random
import struct
import sys
import time

BUT = sys.argv[2] if len(sys.argv) > 2 else ""
RUN = os.environ["PLUMB_RUN_DIR"]
STEPS, MICRO, SITES = 60, 11, []  # elevenths are not exact, so the order of a sum shows
for layer in (0, 1):
    for gemm, operand, kind in (("fprop", "x", "forward"), ("fprop", "w", "forward"),
                                ("wgrad", "dy", "backward")):
        SITES.append({"name": "%d/%s/%s" % (layer, gemm, operand), "class": kind, "layer": layer,
                      "gemm": gemm, "operand": operand, "own": "e4m3:current",
                      "uses": ["bf16", "e5m2"]})
FEATURES = ["checkpoint", "exact_resume", "state_hash", "batch_hash", "micro_order", "data_seed",
            "lr_scale", "warmup_scale", "clip_scale", "skip", "observe"]


def refuse(sentence):
    print(sentence, file=sys.stderr)
    sys.exit(1 if BUT == "status" else 3)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def mix(*values):
    """64 bits that depend on every value."""
    h = 1469598103934665603
    for byte in repr(values).encode():
        h = (h ^ byte) * 1099511628211 % 2 ** 64
    return h


def cast(x, use):
    bits = {"bf16": 8, "e4m3:current": 4, "e5m2": 3}[use]
    fraction, exponent = math.frexp(x)
    return math.ldexp(round(math.ldexp(fraction, bits)), exponent - bits)


def whole(name, record):
    with open(os.path.join(RUN, name + ".part"), "w") as file:
        json.dump(record, file)
    os.rename(os.path.join(RUN, name + ".part"), os.path.join(RUN, name))


def append(name, record):
    with open(os.path.join(RUN, name), "a") as file:
        file.write(record if isinstance(record, str) else json.dumps(record) + "\n")


def policy(path):
    use = {site["name"]: site["own"] for site in SITES}
    for rule in json.load(open(path)) if path and BUT != "deaf" else []:
        globs = rule["sites"] if isinstance(rule["sites"], list) else [rule["sites"]]
        hit = [n for n in use if any(fnmatch.fnmatchcase(n, g) for g in globs)]
        if rule["use"] not in ("bf16", "e5m2", "own", "e4m3:current"):
            if BUT == "anything":
                continue
            refuse("no site can run in " + rule["use"])
        for name in use if hit and BUT == "all-or-nothing" else hit:
            use[name] = "e4m3:current" if rule["use"] == "own" else rule["use"]
    return use


def samples(step, use, seen):
    names = [site["name"] for site in SITES]
    if BUT == "foreign":
        names[0] = "elsewhere"
    head = json.dumps({"sites": names, "columns": [["step", "u64"], ["site", "u32"],
                                                   ["amax", "f32"]]}).encode()
    path = os.path.join(RUN, "sites-rank00000.pls")
    if not os.path.exists(path):
        with open(path, "wb") as file:
            file.write(struct.pack("<8sIII", b"PLUMBPLS", 1, len(head), crc32c(head)) + head)
    n = len(names)
    columns = struct.pack("<%dQ%dI%df" % (n, n, n), *[step] * n, *range(n), *seen)
    body = struct.pack("<IIQQ", n, 0, step, step) + columns
    if BUT == "torn" and step == 1:
        body = body[:-1] + bytes([body[-1] ^ 255])
        crc = 0
    else:
        crc = crc32c(body)
    with open(path, "ab") as file:
        file.write(struct.pack("<II", len(columns), crc) + body)


def load(request):
    """(step, weights, momenta) where the run begins."""
    draw = random.Random(mix("weights", 0 if BUT == "seedless" else int(request.get("seed", 7))))
    state = [0, [draw.uniform(0.5, 1.5) for _ in range(2)], [0.0, 0.0]]
    start = request.get("start")
    if start and BUT == "hang-resumed":
        time.sleep(60)
    if start and BUT != "forgetful":
        if not os.path.exists(start) and BUT != "any-start":
            refuse("no checkpoint " + start)
        if os.path.exists(start):
            state = json.load(open(start))
        if BUT == "momentum":
            state[2] = [0.0, 0.0]
    return state


def batch(request, step):
    seed = int(request.get("data_seed", 7))
    if BUT == "one-seed":
        seed = mix(seed, request.get("seed"))
    if BUT == "data-position" and request.get("start"):
        step += 1
    skip = str(request.get("skip") or "0")
    first, last = (int(s) for s in (skip.split("-") * 2)[:2])
    if BUT != "skip-deaf" and first <= step <= last:
        step += 1000
    draw = random.Random(mix("data", seed, 0 if BUT == "same-batch" else step))
    rows = [draw.uniform(-1, 1) for _ in range(MICRO)]
    order = request.get("micro_order")
    shuffled = list(rows)
    if order is not None:
        random.Random(mix("order", order, step)).shuffle(shuffled)
    return (shuffled if BUT == "order-data" else rows), shuffled


def main():
    request = json.load(open(os.path.join(RUN, "request.json")))
    stop_at = request.get("stop_at", STEPS)
    if BUT == "hang":
        time.sleep(60)
    if BUT == "slow":
        time.sleep(0.7)
    if BUT == "dies":
        print("no GPU found", file=sys.stderr)
        sys.exit(1)
    use = policy(request.get("policy"))
    features = [f for f in FEATURES if BUT != "no-" + f]
    if BUT == "bad-run-json":
        append("run.json", "{")
    elif BUT != "no-run-json" and not (BUT == "late" and stop_at == 0):
        whole("run.json", {"contract": 1, "trainer": "poor", "version": "1", "features": features,
                           "config_hash": "" if BUT == "no-config" else "1",
                           "sites": [] if BUT == "no-sites" else SITES})
    step, weights, momenta = load(request)
    if BUT == "trains-anyway" and stop_at == 0:
        stop_at = 2
    rate = 0.1 * float(request.get("lr_scale") or 1 if BUT != "lr-deaf" else 1)
    clip = 0.5 * float(request.get("clip_scale") or 1)
    warmup = 4 * float(request.get("warmup_scale") or 1)
    observe = int(request.get("observe_every") or 0)
    noise = random.Random(os.urandom(8)) if BUT == "chance" else None
    again, reason = BUT == "restart", "reached"
    while step < stop_at or (BUT == "past" and step < STEPS):
        step += 1
        logged, rows = batch(request, step)
        loss, slopes, seen = 0.0, [0.0, 0.0], [0.0] * len(SITES)
        for x in rows:
            value, casts = x, []
            for layer in (0, 1):
                casts.append((cast(value, use["%d/fprop/x" % layer]),
                              cast(weights[layer], use["%d/fprop/w" % layer])))
                seen[3 * layer] = max(seen[3 * layer], abs(value))
                value = casts[-1][0] * casts[-1][1]
            error = value - 3 * x
            loss += error * error / MICRO
            slopes[1] += 2 * cast(error, use["1/wgrad/dy"]) * casts[1][0] / MICRO
            slopes[0] += 2 * cast(error * casts[1][1], use["0/wgrad/dy"]) * casts[0][0] / MICRO
        if noise:
            slopes[0] += noise.random() * 1e-6
        if BUT == "sensors-move" and observe:
            slopes[0] += 1e-6
        norm = math.hypot(*slopes)
        scale = min(1.0, clip / norm) if norm > 0 else 1.0
        for k in (0, 1):
            momenta[k] = 0.9 * momenta[k] + slopes[k] * scale
            weights[k] -= rate * min(1.0, step / warmup) * momenta[k]
        line = {"step": step, "loss": loss, "grad_norm": norm}
        if BUT != "no-batch_hash":
            line["batch_hash"] = "0x%x" % mix(logged)
        if BUT not in ("no-state_hash", "state-lie"):
            line["state_hash"] = "0x%x" % (5 if BUT == "constant" else mix(weights, momenta))
        if BUT == "gaps" and step == 2:
            del line["grad_norm"]
        if BUT == "no-grad_norm":
            del line["grad_norm"]
        if BUT == "garbage" and step == 2:
            append("metrics.jsonl", "\033[31mstep 2 of 60\n")
        if BUT == "flood" and step == 2:
            append("metrics.jsonl", "Epoch 0\n" * 5000)
            time.sleep(60)
        append("metrics.jsonl", line)
        if observe and step % observe == 0 and BUT != "blind":
            samples(step, use, seen)
        wished = request.get("checkpoint_at") or []
        if (step in wished and BUT != "every-three") or (BUT == "every-three" and step == 3):
            path = os.path.join(RUN, "state-%d" % step)
            with open(path, "w") as file:
                json.dump([step, weights, momenta], file)
            if BUT not in ("checkpoint-lie", "no-checkpoint"):
                append("events.jsonl", {"event": "checkpoint", "step": step, "ref": path})
        if again and step == 2:
            again, step, (_, weights, momenta) = False, 0, load(request)
        if BUT == "restart-event" and step == 2:
            append("events.jsonl", {"event": "restart", "step": 2, "why": "a node was lost"})
        if request.get("stop_at") is None:
            time.sleep(0.03)
        if os.path.exists(os.path.join(RUN, "stop")) and BUT != "stubborn":
            reason = "stopped"
            break
    if BUT != "no-end":
        whole("end.json", {"reason": "stopped" if BUT == "end-lie" else reason, "step": step})


if __name__ == "__main__":
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the file says it too
    main()
