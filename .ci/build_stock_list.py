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
688235 百济 | 600031 三一 | 601899 紫金 | 601111 国航 | 600029 南航 | 600115 东航 | 600600 青啤 | 600132 重啤 | 600585 海螺
600066 宇通 | 600418 江淮 | 601238 广汽 | 600733 北汽 | 000625 长安 | 000157 中联 | 601100 恒立 | 601233 桐昆 | 000703 恒逸
600346 恒力 | 600426 华鲁 | 600486 扬农 | 600989 宝丰 | 688599 天合 | 600089 特变 | 600406 南瑞 | 000400 许继 | 002812 恩捷
002074 国轩 | 605117 德业 | 300763 锦浪 | 300751 迈为 | 300724 捷佳 | 300759 康龙 | 300347 泰格 | 600763 通策 | 688271 联影
300122 智飞 | 300142 沃森 | 000538 白药 | 002603 以岭 | 002281 光迅 | 000063 中兴 | 002938 鹏鼎 | 300661 圣邦 | 688082 盛美
002156 通富 | 603290 斯达 | 601658 邮储 | 603345 安井 | 603517 绝味 | 605499 东鹏 | 000596 古井 | 603198 迎驾 | 002027 分众
300144 宋城 | 002120 韵达 | 600233 圆通 | 002468 申通 | 601699 潞安 | 600188 兖矿 | 600362 江铜 | 000807 云铝 | 002600 领益
601231 环旭 | 600588 用友 | 601872 招轮 | 600048 保利 | 002142 宁行 | 002709 天赐 | 688005 容百 | 600352 龙盛 | 601006 大秦
600699 均胜 | 600741 华域 | 601799 星宇 | 000951 重汽 | 603027 千禾 | 600872 中炬 | 002557 洽洽 | 002847 盐津 | 600160 巨化
002601 龙佰 | 603260 合盛 | 002497 雅化 | 600549 厦钨 | 600497 驰宏 | 300699 光威 | 600760 沈飞 | 000768 西飞 | 600316 洪都
"""
# The first two characters of a name of four, where that is no word: no other name has them, no word of a general
# dictionary, and no text of five million characters of news and reviews; one of them is uncommon, none is one of the
# 220 most common of trading talk; what other houses outside the list are called was taken out by hand.
SHORT_FORMS = """
深粮 广聚 云鼎 京粮 丽珠 顺钠 甘化 兴蓉 华媒 钒钛 茂化 博源 正虹 锦龙 美锦 浩物 恒申 航锦 神雾 顺鑫 亚钾 欣龙 蓝焰 佛塑 皇台 炬申 华瓷 丽臣
拓山 魅视 博菲 炜冈 坤泰 汇绿 欧晶 铖昌 豪鹏 夏厦 康冠 润贝 慕思 锡装 信凯 富岭 兴欣 双欣 德冠 华纬 雪祺 古麒 誉帆 宗申 华邦 盾安 亿帆 双鹭
黔源 华孚 宝鹰 宏润 浔兴 海翔 恒宝 信隆 莱宝 沃华 科陆 拓邦 贤丰 正邦 常铝 芭田 澳洋 御银 奔图 劲嘉 东晶 福晶 濮耐 鸿博 恒邦 拓维 浙富 川润
博深 宇顺 禾盛 圣农 皇氏 仙琚 慈文 森源 卓翼 亚厦 蓝帆 梦洁 垒知 齐翔 毅昌 兆驰 杭氧 兴森 誉衡 闰土 摩恩 松芝 晶澳 榕基 润邦 通鼎 佳隆 汉缆
恺英 鸿路 宝鼎 辉隆 森马 顺灏 百润 圣阳 西陇 捷顺 朗姿 北玻 皓宸 仁智 赞宇 佛慈 华宏 仁东 博彦 茂硕 峰璟 跃岭 燕塘 雄韬 儒意 冀衡 仙坛 昇兴
浙农 凤形 蓝黛 索菱 鹭燕 坚朗 通宇 罗欣 帝欧 洪汇 吉宏 崇达 名雕 弘亚 翔鹭 泰嘉 捷荣 瀛通 钧达 伟隆 弘宇 川恒 铭普 宇环 佛燃 宏川 锋龙 宇晶
西麦 祥鑫 嘉美 侨银 博杰 瑞玛 雷赛 湘佳 北摩 甘源 顺博 瑞鹄 劲仔 壶化 声迅 欣贺 宸展 兆威 联泓 鑫铂 鼎汉 网宿 硅宝 吉峰 琏升 康芝 华伍 振芯
乾照 聆达 锐奇 锦富 英唐 汤臣 瑞凌 朗源 鸿特 通裕 翰宇 森远 银禧 冠昊 佳云 仟源 佳创 佳沃 国瓷 吴通 聚飞 慈星 掌趣 晶盛 珈伟 博晖 麦捷 华灿
旋极 津膜 迪森 银邦 蒙草 炬华 博腾 恒华 扬杰 鹏翎 鼎捷 安硕 劲拓 汉宇 道氏 昇辉 鲍斯 浩云 星徽 赛摩 迅游 东杰 蓝晓 润欣 富祥 昊志 维宏 雪榕
恒实 辰安 健帆 领湃 陇神 雄帝 川环 古鳌 贝达 筑博 熙菱 华凯 诚迈 雄塑 晨化 寒锐 光库 捷捷 久吾 光莆 正丹 透景 晶瑞 弘信 鹏鹞 飞鹿 杰恩 盛弘
蠡湖 岱勒 森霸 威唐 聚灿 怡达 润禾 西菱 光弘 百邦 水羊 欣锐 汉嘉 顶固 罗博 迪普 智莱 帝尔 唐源 宇瞳 壹网 矩子 铂科 耐普 聚杰 贝仕 北鼎 浩洋
龙磁 佰奥 浙矿 酷特 锦盛 申昊 科拓 锋尚 美畅 圣元 海晨 捷强 谱尼 品渥 铜牛 科翔 润阳 南凌 博俊 华骐 屹通 奥雅 恒辉 震裕 嘉亨 恒宇 恒帅 华绿
津荣 蕾奥 久祺 肇民 凯淳 崧盛 嘉益 晶雪 漱玉 奕帆 浩通 迈普 润丰 义翘 信濠 果麦 森赫 戎美 雅创 兆讯 瑜欣 洁雅 恒光 奕东 腾亚 达嘉 满坤 哈焊
嘉戎 冠龙 翔楼 宏德 锡南 毓恬 逸豪 迪阿 泽宇 凯旺 鸥玛 欧圣 菲菱 朗威 亨迪 腾远 恒勃 森鹰 实朴 泓博 飞沃 杰创 恒工 宇邦 瑞晨 汉朔 嘉曼 聚胶
侨源 国缆 美硕 卓创 朗坤 昆船 凡拓 慧博 鑫磊 翰博 绿通 曼恩 捷邦 熵基 凌玮 欣灵 隆扬 昊帆 仁信 溯联 协昌 森泰 泓淋 钧崴 汉桑 恒鑫 智迪 儒竞
星宸 宏鑫 斯菱 惠柏 贝隆 辰奕 蓝宇 慧翰 乔锋 绿联 珂玛 博苑 港迪 泽润 绿控 宏工 昊创 欣兴 慧谷 洛轴 展芯 皖维 康欣 澄星 永鼎 东睦 杭钢 浪莎
珠免 凌钢 铜峰 冠农 嘉化 羚锐 瀚蓝 江钨 海澜 昆药 冠豪 华纺 杭萧 津药 鹏欣 凤竹 菲达 豫光 卓郎 康缘 国睿 济川 山鹰 益佰 鑫源 华鑫 申华 潞化
盛屯 爱旭 鲁信 鲁抗 云煤 耀皮 梅雁 株冶 贵绳 晋亿 柳钢 华钰 赛轮 江盐 渝农 国芳 沈鼓 振石 柏诚 博威 杭齿 吉鑫 秦港 陕鼓 怡球 嘉泽 旗滨 滨化
沪农 辽港 浙版 吉视 永辉 苏垦 东贝 弘讯 威帝 安孚 凯众 泛微 华脉 鹿山 紫燕 禾望 甘李 正裕 众鑫 越剑 汇嘉 恒银 昭衍 恒尚 圣晖 荣晟 莎普 圣龙
弘元 亚邦 璞源 保隆 嘉环 泰鸿 晋拓 赛伍 富佳 景旺 奥翔 诺邦 鸿远 众辰 景津 江瀚 赛腾 键邦 华勤 杭叉 苏盐 振德 旭升 华懋 巍华 福鞍 诚邦 迪贝
梅轮 博隆 福蓉 丰倍 宏辉 百傲 傲农 辰欣 柳药 永臻 骏亚 基蛋 亚振 永杉 信捷 鼎信 勘设 津富 展鹏 翔港 锦泓 立霸 掌阅 捷昌 康辰 禾丰 麒盛 君禾
科森 拉芳 徕木 畅联 彤程 朗博 永冠 晨丰 至纯 朗迪 鸣志 岱美 泰晶 隆鑫 国晟 雅运 洪田 志邦 坤彩 洛凯 松炀 嘉友 鼎胜 永悦 莱绅 国茂 亚翔 正川
吉华 泉峰 丸美 松霖 继峰 豪悦 澳弘 冠盛 嵘泰 洪通 健麾 沪光 宏柏 拱东 博迁 华旺 恒盛 睿创 光峰 乐鑫 安恒 国盾 禾迈 炬芯 华锐 灿瑞 迈威 凯赛
安旭 晶品 虹软 福昕 博众 申联 晶晨 东芯 鼎阳 圣诺 聚辰 沪硅 皓元 清溢 芳源 唯捷 赛伦 炬光 纬德 灿勤 柏楚 迪哲 仁度 佰仁 概伦 瑞晟 睿昂 翱捷
博睿 芯导 井松 卓易 创耀 昀冢 泽璟 凯立 峰岹 华秦 坤恒 敏芯 鸿泉 圣湘 奕瑞 恒誉 盟升 仕佳 康拓 诺禾 禾川 微芯 艾隆 富淼 键凯 祥生 甬矽 华熙
昊海 晶丰 丛麟 美埃 钜泉 硕世 恒烁 耐科 美腾 诺诚 华曙 智翔 磁谷 联芸 科捷 芯联 晶升 南芯 龙迅 源杰 慧辰 茂莱 索辰 苑东 联赢 芯原 纳睿 佰维
汇宇 杭华 浙海 芯海 正帆 煜邦 皖仪 康鹏 恒玄 芯碁 誉辰 华恒 盛邦 京仪 浩辰 悦康 元琛 鼎通 聚石 碧兴 凯因 灿芯 达梦 卓锦 佳驰 北芯 艾罗 恒坤
屹唐 禾元 普冉 博拓 视涯 悦安 宏华 臻宝 燧原 沐曦 泰诺 优迅 频准 国仪 宇树 纬达 鼎佳 晟楠 酉立 丹娜 凯添 星昊 卓兆 觅睿 隆源 百甲 西磁 科润
普昂 秋乐 禾昌 汉鑫 嘉晨 宏海 龙鑫 芭薇 泰鹏 永励 华岭 旭杰 昆工 龙辰 珈凯 海圣 志晟 维琪 恒道 锐翔 悦龙 振宏 青矩 朗信 益坤 灵鸽 恒太 莱赛
朗鸿 常辅 驰诚 恒拓 苏轴 润普 富恒 博迅 九菱 殷图 骏创 凯腾 坤博 鼎智 秉扬 铁拓 联迪 艾融 奔朗 颖泰 泓禧 绿亨 广咨 广脉 鸿智 森萱 迅安 润农
晶赛 锦波
""".split()
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
    several; names without the A of an A share; nicknames; short forms."""
    candidates = collections.defaultdict(set)
    known = [(code, [name]) for source in (older, newer, names) for code, name in source.items()]
    for code, former in read_table(FORMER) + known:
        good = [core(name) for name in former if code in names and not CUT.search(name)]
        candidates[code].update(good + [name[:-1] for name in good if name.endswith("A")])
    owners = collections.Counter(name for former in candidates.values() for name in former)
    aliases = collections.defaultdict(set, {code: set(nicknames) for code, nicknames in read_table(NICKNAMES)})
    for short in SHORT_FORMS:
        called = [code for code, name in names.items() if short in name]
        if len(called) != 1:  # another company is called so by now, or nobody any more
            raise SystemExit("the short form %s fits %d names: %s" % (short, len(called), " ".join(called)))
        aliases[called[0]].add(short)
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
