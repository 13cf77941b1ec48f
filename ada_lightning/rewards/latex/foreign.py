"""Units, and what is counted, in languages other than English: one English name for each."""

# ruff: noqa: RUF001, SIM905 - letters of other scripts are meant; a list of texts would be harder to read

from __future__ import annotations

_ENTRIES = """
yuan 元 块 圆 人民币 rmb cny; jiao 角; cent 分钱; kilometer 千米 公里 км; meter 米 м метр метра метров metro
metros mètre mètres; decimeter 分米; centimeter 厘米 см сантиметр сантиметров centímetro centímetros; millimeter
毫米 мм; kilogram 千克 公斤 кг килограмм килограммов kilo; gram 克 грамм граммов gramo gramos gramme grammes;
ton 吨 т тонн; liter 升 литр литра литров litro litros; milliliter 毫升; hour 小时 时 час часа часов hora horas
heure heures stunde stunden 時間; minute 分钟 分 минута минуты минут minuto minutos minuten; second 秒 секунда
секунды секунд segundo segundos seconde secondes sekunde sekunden; day 天 日 день дня дней día días dia dias
jour jours tag tage; week 周 星期 неделя недели недель semana semanas semaine semaines woche wochen; month 月
个月 месяц месяца месяцев mes meses mois monat monate; year 年 岁 год года лет año años ano anos an ans année
années jahr jahre; degree 度 градус градуса градусов grado grados degré degrés grad; meter^2 平方米;
centimeter^2 平方厘米; decimeter^2 平方分米; kilometer^2 平方千米 平方公里; meter^3 立方米; centimeter^3
立方厘米; decimeter^3 立方分米; hectare 公顷; person 人 名 位 человек человека persona personas personne
personnes personen 명; piece 个 只 本 支 张 条 件 辆 棵 头 匹 台 种 块砖 枝 颗 粒 瓶 杯 碗 盒 箱 袋 包 桶 套 双
座 间 所 根 朵 盆 面 把 架 艘 顶 幅 枚 片 株 串 段 份 шт 個 개; group 组 班 队 组合; page 页; row 行 排; column
列; floor 层 楼; step 步; time 次 倍 раз vez veces fois mal; problem 道 题; method 种方法 种不同的方法; euro
евро euros; ruble рубль рубля рублей руб; yen 円 日元; won 원; apple яблоко яблока яблок manzana manzanas pomme
pommes apfel äpfel; kilometer/hour 千米每小时 公里每小时 千米/时 км/ч; meter/second 米每秒 米/秒 м/с;
kilometer/hour 千米/小时
""".split(";")
FOREIGN = {word: name for entry in _ENTRIES for name, *words in [entry.split()] for word in words}
SCALES = {
    "\u767e": 10**2, "\u5343": 10**3, "\u4e07": 10**4, "\u842c": 10**4, "\u767e\u4e07": 10**6,
    "\u5343\u4e07": 10**7, "\u4ebf": 10**8, "\u5104": 10**8,
}  # fmt: skip
"""Chinese words for large numbers."""
