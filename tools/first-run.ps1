<#
.SYNOPSIS
    The first run of kdamonitor.sys on a Windows machine that may break: everything docs/windows.md wants
    to see, and one zip to send back.

.DESCRIPTION
    Run it elevated on a test machine with test signing on (docs/windows.md), three times:

        first-run.ps1 -Kda .\kda.exe -Driver .\kdamonitor.sys
        first-run.ps1 -Kda .\kda.exe -Driver .\kdamonitor.sys -Verifier      # sets Driver Verifier; restart
        first-run.ps1 -Kda .\kda.exe -Driver .\kdamonitor.sys                # the same again, under Verifier

    Each step is a line of checks.txt: PASS, FAIL or LOOK (a person has to look at the named file).
    The zip holds checks.txt, the log, the status of the driver, and what was asked of Windows. It
    contains command lines and registry data of this machine.
#>
param(
    [Parameter(Mandatory)] [string] $Kda,
    [Parameter(Mandatory)] [string] $Driver,
    [string] $Out = (Join-Path $env:TEMP ("kda-first-run-" + (Get-Date -Format yyyyMMdd-HHmmss))),
    [int] $Cycles = 200,
    [switch] $Verifier
)
Set-StrictMode -Version Latest
$ErrorActionPreference = 'Continue'
$Kda = (Resolve-Path $Kda).Path
$Driver = (Resolve-Path $Driver).Path
$logs = Join-Path $env:SystemRoot 'KDAMonitor'
New-Item -ItemType Directory -Force $Out | Out-Null
$checks = Join-Path $Out 'checks.txt'

function Say([string] $verdict, [string] $what, [string] $more = '') {
    $line = '{0,-4} {1} {2}' -f $verdict, $what, $more
    Add-Content $checks $line
    Write-Host $line
}
function Check([string] $what, [bool] $good, [string] $more = '') {
    Say $(if ($good) { 'PASS' } else { 'FAIL' }) $what $more
}
# Output of a program in a file of the zip; its exit code.
function Keep([string] $file, [scriptblock] $run) {
    & $run *>&1 | Out-String -Width 400 | Add-Content (Join-Path $Out $file)
    return $LASTEXITCODE
}

if (-not ([Security.Principal.WindowsPrincipal][Security.Principal.WindowsIdentity]::GetCurrent()).IsInRole('Administrators')) {
    throw 'run it elevated'
}
if ($Verifier) {
    verifier /flags 0x2093B /driver kdamonitor.sys
    Write-Host 'Restart, then run the script again without -Verifier.'
    return
}

# --- the machine -----------------------------------------------------------------------------------
Keep 'machine.txt' { Get-ComputerInfo -Property Os*, Windows*, DeviceGuard*, Hyper* } | Out-Null
Keep 'machine.txt' { bcdedit /enum '{current}' } | Out-Null
Keep 'verifier.txt' { verifier /querysettings } | Out-Null
$dumpsBefore = @(Get-ChildItem "$env:SystemRoot\Minidump", "$env:SystemRoot\MEMORY.DMP" -ErrorAction SilentlyContinue).Count

# --- install, start --------------------------------------------------------------------------------
Check 'install' ((Keep 'kda.txt' { & $Kda driver install $Driver }) -eq 0)
Check 'start (577: signature; 1275, 4551: policy)' ((Keep 'kda.txt' { & $Kda driver start }) -eq 0)
Keep 'kda.txt' { fltmc filters; driverquery /v /fo list | Select-String -Context 0, 12 kdamonitor } | Out-Null
Start-Sleep 3
$status = (& $Kda driver status -f json 2>$null | Out-String | ConvertFrom-Json)
foreach ($sensor in $status.sensors.PSObject.Properties) {
    $cause = if ($sensor.Value.PSObject.Properties['call']) { "$($sensor.Value.call) $($sensor.Value.status)" } else { '' }
    Check "sensor $($sensor.Name) is armed" ($sensor.Value.state -eq 'armed') $cause
}

# --- each sensor, with a mark that is looked for in the log ---------------------------------------------
$mark = 'kda' + [Guid]::NewGuid().ToString('N').Substring(0, 12)
cmd /c "rem $mark"
reg add "HKCU\Software\$mark" /v "$mark-value" /t REG_DWORD /d 7 /f | Out-Null
reg add "HKLM\SYSTEM\CurrentControlSet\Control\$mark" /f | Out-Null     # through a link of the registry
reg delete "HKLM\SYSTEM\CurrentControlSet\Control\$mark" /f | Out-Null
reg delete "HKCU\Software\$mark" /f | Out-Null
foreach ($address in '127.0.0.1', '::1') {
    $listener = [Net.Sockets.TcpListener]::new([Net.IPAddress]::Parse($address), 0)
    $listener.Start()
    $port = $listener.LocalEndpoint.Port
    $client = [Net.Sockets.TcpClient]::new($listener.LocalEndpoint.AddressFamily)
    $client.Connect($address, $port)
    $client.Close(); $listener.Stop()
    if ($address -eq '127.0.0.1') { $port4 = $port } else { $port6 = $port }
}
Copy-Item "$env:SystemRoot\System32\version.dll" (Join-Path $Out "$mark.dll")
Add-Type -Namespace Kda -Name Native -MemberDefinition '
[DllImport("kernel32", CharSet = CharSet.Unicode)] public static extern System.IntPtr LoadLibraryW(string path);'
[Kda.Native]::LoadLibraryW((Join-Path $Out "$mark.dll")) | Out-Null
if (Get-Command wsl -ErrorAction SilentlyContinue) { wsl --exec true }
Restart-Service -Force BFE -ErrorAction SilentlyContinue                # the filters come again
Start-Sleep 5
$after = (& $Kda driver status -f json 2>$null | Out-String | ConvertFrom-Json)
Check 'network is armed again after a restart of the filter engine' ($after.sensors.network.state -eq 'armed')
Start-Sleep 3
$log = Get-ChildItem $logs -Filter *.jsonl | Sort-Object LastWriteTime | Select-Object -Last 1
$text = [IO.File]::Open($log.FullName, 'Open', 'Read', 'ReadWrite, Delete')
$lines = [IO.StreamReader]::new($text).ReadToEnd() -split "`n"
$text.Close()
function Seen([string] $what, [string[]] $parts) {
    $found = $lines
    foreach ($part in $parts) { $found = @($found | Where-Object { $_.Contains($part) }) }
    Check $what ($found.Count -gt 0) "$($found.Count) lines"
}
Seen 'process.create with its command line' '"process.create"', $mark
Seen 'image.load' '"image.load"', "$mark.dll"
Seen 'registry.value_set' '"registry.value_set"', "$mark-value"
Seen 'registry.key_create behind a link, under its final name' '"registry.key_create"', "ControlSet0", $mark
Seen 'thread.create' '"thread.create"', '"start_module"'
Seen 'network.listen' '"network.listen"', "`"local_port`":$port4"
Seen 'network.connect, IPv4' '"network.connect"', "`"remote_port`":$port4"
Seen 'network.accept, IPv4' '"network.accept"', "`"local_port`":$port4"
Seen 'network.connect, IPv6' '"network.connect"', "`"remote_port`":$port6"
Seen 'signature levels are there' '"process.existing"', '"signature_level"'
Say 'LOOK' 'offloads of the network cards are as before: rsc.txt'
Keep 'rsc.txt' { Get-NetAdapterRsc; Get-NetOffloadGlobalSetting } | Out-Null

# --- who may not -------------------------------------------------------------------------------------
$probe = 'try { [IO.File]::Open("\\.\KDAMonitor", "Open", "ReadWrite").Close(); exit 1 } catch { exit 0 }'
$task = 'kda-first-run-probe'
schtasks /create /f /tn $task /sc once /st 00:00 /ru 'NT AUTHORITY\LOCAL SERVICE' /tr "powershell -NoProfile -Command $probe" | Out-Null
schtasks /run /tn $task | Out-Null
Start-Sleep 5
Check 'others cannot open the device' ((Get-ScheduledTaskInfo $task).LastTaskResult -eq 0)
schtasks /delete /f /tn $task | Out-Null
Keep 'security.txt' { icacls $logs; Get-Acl $logs | Format-List } | Out-Null

# --- many starts and stops, with something going on ------------------------------------------------------
$load = Start-Job { while ($true) { cmd /c ver | Out-Null; Get-ChildItem HKLM:\SOFTWARE -ErrorAction SilentlyContinue | Out-Null } }
$bad = 0
foreach ($i in 1..$Cycles) {
    & $Kda driver stop *> $null; if ($LASTEXITCODE -ne 0) { $bad++ }
    & $Kda driver start *> $null; if ($LASTEXITCODE -ne 0) { $bad++ }
}
Stop-Job $load; Remove-Job -Force $load
Check "$Cycles starts and stops under load" ($bad -eq 0) "$bad failed"

# --- what the driver itself says, and the account ---------------------------------------------------------
Keep 'status.txt' { & $Kda driver status -v } | Out-Null
Keep 'status.json' { & $Kda driver status -f json } | Out-Null
Check 'stop' ((Keep 'kda.txt' { & $Kda driver stop }) -eq 0)
$files = @(Get-ChildItem $logs -Filter *.jsonl)
Check 'kda verify' ((Keep 'verify.txt' { & $Kda verify @($files.FullName) }) -in 0, 3) 'verify.txt'
Keep 'verifier.txt' { verifier /query } | Out-Null
Say 'LOOK' 'verifier.txt: current allocations of kdamonitor.sys are 0'
$dumps = @(Get-ChildItem "$env:SystemRoot\Minidump", "$env:SystemRoot\MEMORY.DMP" -ErrorAction SilentlyContinue).Count
Check 'no blue screen' ($dumps -eq $dumpsBefore)
$log, $files[-1] | Select-Object -Unique | Copy-Item -Destination $Out
Remove-Item (Join-Path $Out "$mark.dll") -ErrorAction SilentlyContinue

Compress-Archive -Force -Path (Join-Path $Out '*') -DestinationPath "$Out.zip"
Write-Host "`nSend back: $Out.zip (it holds command lines and registry data of this machine)"
