#!/usr/bin/env python3
"""Builds stock_list_cache.json, the names and codes of all Shanghai, Shenzhen and Beijing shares.

    python build_stock_list.py [--wheels DIR] [--out FILE]

The facts are data files inside published packages; their wheels are opened as zip archives, nothing is imported.
Wheels that DIR does not hold are fetched with `pip download --no-deps`. Each source serves one purpose:

    chstockdata               names of Shanghai and Shenzhen shares: the exchanges' own lists of 2026-10-22
    adata                     names of October 2023: former names, and full names where the newer list cuts them
    cnequity                  old to new codes of Beijing shares
    youngcan-wyckoff-analysis Beijing names of today, full names, and the cross-check

The script fails when more than 1 % of the common names disagree, when a code or name repeats, when a code is not six
digits, when a name is shorter than two characters, or when there are too few rows. One row a line, sorted by code:

    {"code": "600519", "name": "贵州茅台", "aliases": ["茅台"]}
    {"code": "920017", "name": "星昊医药", "old_codes": ["430017"]}
"""
import argparse
import collections
import csv
import glob
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unicodedata
import zipfile

SOURCES = {   # package -> (version, end of the data file's name inside the wheel)
    "chstockdata": ("0.4.4", "/data/industry/universe_2026-10-22.csv"),
    "adata": ("2.9.5", "/stock/cache/code.csv"),
    "cnequity": ("0.20.0", "/seeds/bse_code_mapping.json"),
    "youngcan-wyckoff-analysis": ("0.9.467", "/data/stock_list_cache.json"),
}
MIN_ROWS = 5500
MAX_DISAGREEMENT = 0.01      # share of common codes whose names differ for no known reason
MIN_ALIAS_CHARACTERS = 3     # two characters are a fragment of ordinary text too often

# Shares the exchanges' lists of ordinary shares leave out: a depositary receipt, and a share that got a new code.
UNLISTED = {"302132": "中航成飞", "689009": "九号公司"}
MOVED = {"300114": "302132"}
# Former names older than every source, still in use among traders.
FORMER = """
000001 深发展A | 000100 TCL集团 | 000301 东方市场 | 000408 藏格控股 | 000426 兴业矿业 | 000768 中航飞机 西飞国际 | 000792 盐湖钾肥 | 000831 五矿稀土
000975 银泰资源 | 000983 西山煤电 | 002024 苏宁易购 苏宁云商 苏宁电器 | 002044 江苏三友 | 002129 中环股份 | 002192 路翔股份 | 002240 威华股份
002352 鼎泰新材 | 002459 天业通联 | 002506 超日太阳 | 002558 世纪游轮 | 002600 江粉磁材 | 002624 完美环球 | 002648 卫星石化 | 002739 万达院线
002756 永兴特钢 | 600018 上港集箱 | 600062 双鹤药业 | 600111 包钢稀土 | 600176 中国玻纤 | 600188 兖州煤业 | 600221 海南航空 | 600233 大杨创世
600309 烟台万华 | 600348 阳泉煤业 | 600588 用友软件 | 600690 青岛海尔 | 600732 上海新梅 | 600760 中航黑豹 | 600893 中航动力 航空动力 | 601001 大同煤业
601012 隆基股份 | 601127 小康股份 | 601360 江南嘉捷 | 601766 中国南车 | 601888 中国国旅 | 601919 中国远洋
"""
# Short forms and nicknames that fit one company only, as traders write them. More can be added to the list itself.
NICKNAMES = """
600519 茅台 | 300750 宁王 宁德 | 002594 迪王 | 600036 招行 | 601398 工行 | 601939 建行 | 601288 农行 | 601988 中行 | 601328 交行
601888 中免 | 603259 药明 | 000651 格力 | 000333 美的 | 000002 万科 | 000725 京东方 | 688981 中芯 | 600276 恒瑞 | 002475 立讯 | 002415 海康
300059 东财 | 002714 牧原 | 002352 顺丰 | 601857 中石油 | 600028 中石化 | 600938 中海油 | 601138 富联 | 601919 海控 | 002230 讯飞
002466 天齐 | 002460 赣锋 | 600887 伊利 | 300760 迈瑞 | 601012 隆基 | 688256 寒王 | 600000 浦发 | 000568 老窖 | 600809 汾酒 | 600436 片仔
300014 亿纬 | 300015 爱尔 | 600438 通威 | 300024 新松机器人 | 601099 太平洋证券 | 603986 兆易 | 600584 长电 | 603501 韦尔 | 600309 万华
600660 福耀 | 601766 中车 | 600941 中移动 | 003816 中广核 | 601088 神华 | 601225 陕煤 | 600019 宝钢 | 600010 包钢 | 600104 上汽
000338 潍柴 | 000425 徐工 | 300124 汇川 | 688012 中微 | 688072 拓荆 | 688041 海光 | 688008 澜起 | 002241 歌尔 | 300433 蓝思 | 688036 传音
300308 旭创 | 300394 天孚 | 002463 沪电 | 300476 胜宏 | 600745 闻泰 | 000895 双汇 | 300498 温氏 | 600196 复星 | 000012 南玻 | 000869 张裕
002085 万丰 | 603799 华友 | 002304 洋河 | 002050 三花 | 601689 拓普 | 603993 洛钼 | 600111 北稀
"""
SHARED = {"如意集团"}        # the name of one company in the older list, and before that of another

MARKS = re.compile(r"-(?:UW|WD|U|W|D)$")
CUT = re.compile(r"^(?:XD|XR|DR|N|C)(?=[\u4e00-\u9fff])")
STATUS = re.compile(r"^(?:S\*ST|\*ST|SST|ST|S)(?=[\u4e00-\u9fff])")


def clean(name):
    """The name in NFKC, without white space and without the marks -U, -W, -D."""
    return MARKS.sub("", "".join(unicodedata.normalize("NFKC", name).split()))


def core(name):
    """The name without what only says its state: cut mark, ST."""
    return STATUS.sub("", CUT.sub("", name))


def read_wheel(folder, package, version, ending):
    """The text of the one file with that ending in the package's wheel, which is fetched when it is missing."""
    pattern = os.path.join(folder, "%s-%s-*.whl" % (package.replace("-", "_"), version))
    if not glob.glob(pattern):
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
                        "-d", folder, "%s==%s" % (package, version)], check=True)
    with zipfile.ZipFile(glob.glob(pattern)[0]) as wheel:
        [inside] = [name for name in wheel.namelist() if name.endswith(ending)]
        return wheel.read(inside).decode("utf-8-sig")


def names_by_code(rows, code, name):
    """{code: cleaned name} of records; fails when a code repeats with another name."""
    names = {}
    for row in rows:
        if names.setdefault(row[code], clean(row[name])) != clean(row[name]):
            raise SystemExit("%s repeats: %s and %s" % (row[code], names[row[code]], row[name]))
    return names


def read_sources(folder):
    """(official, older, newer, moved): three {code: name} and {old code: new code}."""
    text = {p: read_wheel(folder, p, version, ending) for p, (version, ending) in SOURCES.items()}
    moved = dict(json.loads(text["cnequity"]), **MOVED)
    official = names_by_code(csv.DictReader(io.StringIO(text["chstockdata"])), "code", "name")
    newer = names_by_code(json.loads(text["youngcan-wyckoff-analysis"]), "code", "name")
    older = names_by_code(csv.DictReader(io.StringIO(text["adata"])), "stock_code", "short_name")
    return official, {moved.get(code, code): name for code, name in older.items()}, newer, moved


def full_name(code, name, *others):
    """The name without a cut mark, completed from another source; '' when nobody knows the whole. Only Shanghai cuts
    what follows the mark; in Shenzhen a name of four characters behind N or C is whole."""
    start = core(name)
    if not CUT.search(name):
        return name
    whole = [other for other in others if other and not CUT.search(other) and core(other).startswith(start)]
    return (whole + [start if code[0] in "03" and len(start) >= 4 else ""])[0]


def current_names(official, older, newer):
    """{code: name} of every share with a whole name; Beijing names come from the newer list."""
    names = dict(official, **UNLISTED)
    names.update((code, name) for code, name in newer.items() if code.startswith("92"))
    whole = {code: full_name(code, name, newer.get(code), older.get(code)) for code, name in names.items()}
    for code in sorted(c for c in whole if not whole[c]):
        print("left out, name is cut: %s %s" % (code, names[code]))
    return {code: name for code, name in whole.items() if name}


def read_table(text):
    """[(code, [name])] of entries 'code name name' that are separated by | or by lines."""
    return [(entry.split()[0], entry.split()[1:]) for entry in text.strip().replace("\n", "|").split("|")]


def aliases_of(names, older, newer):
    """{code: [other name]}: former names that are whole, long enough, of one company only and no part of the names of
    several; names without the A of an A share; nicknames."""
    candidates = collections.defaultdict(set)
    known = [(code, [name]) for source in (older, newer, names) for code, name in source.items()]
    for code, former in read_table(FORMER) + known:
        good = [core(name) for name in former if code in names and not CUT.search(name)]
        candidates[code].update(good + [name[:-1] for name in good if name.endswith("A")])
    owners = collections.Counter(name for former in candidates.values() for name in former)
    aliases = collections.defaultdict(set, {code: set(nicknames) for code, nicknames in read_table(NICKNAMES)})
    for code, former in candidates.items():
        for name in former - SHARED - {core(names.get(code, ""))}:
            inside = {c for c, current in names.items() if name in current} - {code}
            if len(name) >= MIN_ALIAS_CHARACTERS and owners[name] == 1 and not inside:
                aliases[code].add(name)
    return {code: sorted(other) for code, other in aliases.items() if other}


def check(names, newer, aliases):
    """Raises SystemExit with the reason when the list may not be used."""
    called = collections.Counter(list(names.values()) + [name for other in aliases.values() for name in other])
    common = [code for code in names if code in newer]
    differ = ["%s:%s/%s" % (c, names[c], newer[c]) for c in common if not same_company(names[c], newer[c])]
    print("%d rows, %d common with the cross-check, %d differ: %s" % (
        len(names), len(common), len(differ), " ".join(differ)))
    for problem, found in (
            ("codes not of six digits", [code for code in names if not re.fullmatch("[0-9]{6}", code)]),
            ("names shorter than two characters", [code for code in names if len(core(names[code])) < 2]),
            ("names that repeat", [name for name in called if called[name] > 1]),
            ("aliases of unknown codes", [code for code in aliases if code not in names]),
            ("names that disagree", differ if len(differ) > MAX_DISAGREEMENT * len(common) else []),
            ("too few rows", [] if len(names) >= MIN_ROWS else [str(len(names))])):
        if found:
            raise SystemExit("%s: %s" % (problem, " ".join(sorted(found))))


def same_company(name, other):
    """True when two names differ by no more than a mark or by what a mark has cut off."""
    one, two = sorted((core(name), core(other)), key=len)
    return two.startswith(one)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--wheels", help="folder with the wheels (default: a temporary one)")
    parser.add_argument("--out", default="stock_list_cache.json")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as temporary:
        official, older, newer, moved = read_sources(options.wheels or temporary)
    names = current_names(official, older, newer)
    aliases = aliases_of(names, older, newer)
    check(names, newer, aliases)
    rows = [{"code": code, "name": names[code], "aliases": aliases.get(code),
             "old_codes": sorted(old for old in moved if moved[old] == code)} for code in sorted(names)]
    lines = [json.dumps({key: row[key] for key in row if row[key]}, ensure_ascii=False) for row in rows]
    with open(options.out, "w", encoding="utf-8", newline="\n") as out:
        out.write("[\n" + ",\n".join(lines) + "\n]\n")
    print("%s: %d rows, %d aliases" % (options.out, len(lines), sum(map(len, aliases.values()))))


if __name__ == "__main__":
    main()
