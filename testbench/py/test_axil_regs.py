"""BAR0 seen by cocotbext-axi's AXI4-Lite master, channels skewed at random. Addresses come in ROCENIC_FACTS."""
import json
import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, Combine
from cocotbext.axi import AxiLiteBus, AxiLiteMaster

FACTS = json.loads(os.environ["ROCENIC_FACTS"])


async def start(dut, pause):
    cocotb.start_soon(Clock(dut.clk, 4, "ns").start())
    dut.rst.value = 1
    master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
    if pause:
        rng = random.Random(cocotb.RANDOM_SEED)

        def gaps():
            while True:
                yield rng.random() < pause

        for channel in (master.write_if.aw_channel, master.write_if.w_channel, master.write_if.b_channel,
                        master.read_if.ar_channel, master.read_if.r_channel):
            channel.set_pause_generator(gaps())
    await ClockCycles(dut.clk, 5)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 5)
    return master


@cocotb.test()
async def identity_reads_as_the_contract_says(dut):
    master = await start(dut, 0.3)
    for address, value in FACTS["identity"]:
        assert await master.read_dword(address) == value, hex(address)


@cocotb.test()
async def mailbox_words_read_back_under_any_skew(dut):
    for pause in (0, 0.2, 0.7):
        master = await start(dut, pause)
        rng = random.Random(cocotb.RANDOM_SEED + int(pause * 10))
        words = {a: rng.getrandbits(32) for a in FACTS["mailbox"]}
        for a in rng.sample(sorted(words), len(words)):
            await master.write_dword(a, words[a])
        for a in rng.sample(sorted(words), len(words)):
            assert await master.read_dword(a) == words[a], hex(a)


@cocotb.test()
async def reads_and_writes_at_once_do_not_disturb_each_other(dut):
    master = await start(dut, 0.4)
    rng = random.Random(cocotb.RANDOM_SEED)
    a = FACTS["mailbox"]

    async def writer():
        for i in range(100):
            await master.write_dword(a[i % 8], i)

    async def reader():
        for _ in range(100):
            address, value = rng.choice(FACTS["identity"])
            assert await master.read_dword(address) == value, hex(address)

    await Combine(cocotb.start_soon(writer()), cocotb.start_soon(reader()))


@cocotb.test()
async def an_address_without_a_register_answers(dut):
    master = await start(dut, 0)
    for address in FACTS["holes"]:
        await master.write_dword(address, 0xffffffff)
        assert await master.read_dword(address) == 0, hex(address)


@cocotb.test()
async def a_partial_write_changes_nothing(dut):
    master = await start(dut, 0)
    a = FACTS["mailbox"][3]
    await master.write_dword(a, 0x11223344)
    await master.write_byte(a + 1, 0xff)
    assert await master.read_dword(a) == 0x11223344
