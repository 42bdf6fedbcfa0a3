"""kdamonitor.inf: what InfVerif asks of a primitive driver, as far as it can be asked here."""
import datetime
import os
import re
import unittest

from common import ROOT

PATH = os.path.join(ROOT, "driver/kdamonitor.inf")
ARCHES = ("amd64", "arm64")
# Directives of a primitive driver's sections; anything else is a mistake, or needs thought.
KNOWN = {
    "Version": {"Signature", "Class", "ClassGuid", "Provider", "CatalogFile", "DriverVer",
                "PnpLockdown"},
    "Driver.Service": {"DisplayName", "Description", "ServiceType", "StartType", "ErrorControl",
                       "LoadOrderGroup", "ServiceBinary", "AddReg"},
}


def parse(text):
    """section -> lines, each (key or None, value); comments and spaces are gone."""
    sections, current = {}, None
    for line in text.splitlines():
        line = re.sub(r'\s*;(?=(?:[^"]*"[^"]*")*[^"]*$).*', "", line).strip()
        if not line:
            continue
        if line.startswith("["):
            current = line.strip("[]")
            if current in sections:
                raise ValueError("section %s twice" % current)
            sections[current] = []
        elif "=" in line and not line.startswith("HKR"):
            key, value = (part.strip() for part in line.split("=", 1))
            sections[current].append((key, value))
        else:
            sections[current].append((None, line))
    return sections


def problems(text):
    try:
        inf = parse(text)
    except ValueError as error:
        return [str(error)]
    found = []
    value = lambda section, key: dict(inf.get(section, [])).get(key)

    def must(condition, sentence):
        if not condition:
            found.append(sentence)
    must(value("Version", "Signature") == '"$WINDOWS NT$"', "signature")
    must(value("Version", "PnpLockdown") == "1", "PnpLockdown")
    must((value("Version", "CatalogFile") or "").endswith(".cat"), "no catalog")
    version = re.match(r"(\d\d)/(\d\d)/(\d{4}),(\d+\.\d+\.\d+\.\d+)$",
                       value("Version", "DriverVer") or "")
    must(version, "DriverVer")
    if version:
        month, day, year = (int(version.group(i)) for i in (1, 2, 3))
        must(datetime.date(year, month, day) >= datetime.date(2009, 4, 21), "date is too early")
        with open(os.path.join(ROOT, "driver/driver.h"), encoding="ascii") as f:
            own = re.search(r'KDA_VERSION_TEXT "([^"]+)"', f.read()).group(1)
        must(version.group(4) == own + ".0", "version is not that of the driver")
    must(value("DestinationDirs", "DefaultDestDir") == "13", "not run from the driver store")
    must("Manufacturer" not in inf, "a primitive driver has no Manufacturer")
    for section, keys in KNOWN.items():
        for key, _ in inf.get(section, []):
            must(key in keys, "%s in [%s]" % (key, section))
    for section, lines in inf.items():
        if re.match(r"Default(Un)?Install", section):
            must(re.search(r"\.NT(%s)(\.Services)?$" % "|".join(ARCHES), section),
                 "[%s] names no machine" % section)
        for key, text_ in lines:
            for name in re.findall(r"%(\w+)%", text_):
                must(name == "13" or value("Strings", name), "%%%s%% is not defined" % name)
            if key in ("CopyFiles", "DelFiles", "AddReg"):
                must(text_ in inf, "[%s] is not there" % text_)
    files = dict(inf.get("SourceDisksFiles", []))
    for arch in ARCHES:
        must(value("SourceDisksNames." + arch, "1"), "no source for " + arch)
        install = "DefaultInstall.NT" + arch
        must(value(install, "CopyFiles"), "nothing is copied for " + arch)
        service = (value(install + ".Services", "AddService") or "").split(",")
        must(service[0] == "kdamonitor" and service[-1] in inf, "no service for " + arch)
        remove = "DefaultUninstall.NT" + arch
        must(value(remove, "LegacyUninstall") == "1", "no LegacyUninstall for " + arch)
        must((value(remove + ".Services", "DelService") or "").startswith("kdamonitor,"),
             "the service stays on " + arch)
    for _, name in inf.get("Driver.Copy", []):
        must(name in files, "%s has no source" % name)
    must(value("Driver.Service", "ServiceType") == "1", "no kernel driver")
    must(value("Driver.Service", "ServiceBinary") == "%13%\\kdamonitor.sys", "binary")
    must(all(line.startswith("HKR,Parameters,") for _, line in inf.get("Driver.Parameters", [])),
         "a value outside Parameters")
    return found


class Inf(unittest.TestCase):
    def setUp(self):
        with open(PATH, encoding="ascii") as f:
            self.text = f.read()

    def test_sound(self):
        self.assertEqual(problems(self.text), [])

    def test_settings_exist(self):
        with open(os.path.join(ROOT, "docs/settings.md"), encoding="utf-8") as f:
            documented = f.read()
        for _, line in parse(self.text)["Driver.Parameters"]:
            self.assertIn("`%s`" % line.split(",")[2], documented)

    def test_mistakes(self):
        for old, new in (("PnpLockdown = 1", ""), ("kdamonitor.cat\n", "\n"),
                         ("0.1.0.0", "0.1.0.1"), ("01/01/2026", "2026-01-01"),
                         ("DefaultDestDir = 13", "DefaultDestDir = 12"),
                         ("[DefaultInstall.NTarm64]", "[DefaultInstall]"),
                         ("[Driver.Copy]", "[Driver.Kopy]"),
                         ("%ServiceText%", "%ServiceTest%"), ("ServiceType    = 1 ", "ServiceType = 2 "),
                         ("%13%\\kdamonitor.sys", "%12%\\kdamonitor.sys"),
                         ("HKR,Parameters,RecordEverything", "HKLM,Parameters,RecordEverything"),
                         ("[Driver.Service]\n", "[Driver.Service]\nStartName = x\n"),
                         ("[DefaultUninstall.NTamd64]\nLegacyUninstall = 1",
                          "[DefaultUninstall.NTamd64]"),
                         ("[Strings]", "[Manufacturer]\n%Provider% = x\n[Strings]"),
                         ("[Driver.Copy]\n", "[Driver.Copy]\nother.sys\n"),
                         ("[SourceDisksNames.arm64]", "[SourceDisksNames.arm]")):
            with self.subTest(old=old):
                self.assertIn(old, self.text)
                self.assertNotEqual(problems(self.text.replace(old, new)), [])


if __name__ == "__main__":
    unittest.main()
