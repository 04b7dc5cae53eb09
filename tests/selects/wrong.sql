-- unknown-column 1:8
SELECT ammount FROM lake.shop.orders;

-- unknown-column 1:10
SELECT o.ammount FROM lake.shop.orders AS o;

-- unknown-column 3:7
SELECT order_id
FROM lake.shop.orders
WHERE state = 'paid';

-- unknown-alias 1:8
SELECT orders.order_id FROM lake.shop.orders AS o;

-- unknown-alias 1:18
SELECT o.amount, c.name FROM lake.shop.orders o;

-- unknown-alias 1:8
SELECT x.* FROM lake.shop.orders o;

-- unknown-field 1:16
SELECT address.town FROM lake.shop.orders;

-- unknown-field 1:20
SELECT address.geo.long FROM lake.shop.orders;

-- unknown-field 1:18
SELECT o.address.strasse AS street FROM lake.shop.orders o;

-- unknown-field 1:14
SELECT items.name FROM lake.shop.orders;

-- unknown-column 1:90
SELECT order_id FROM lake.shop.orders JOIN lake.shop.customers USING (customer_id) WHERE id > 1
-- the USING is right, the WHERE is not;

-- unknown-column 3:33
SELECT o.order_id
FROM lake.shop.orders AS o
JOIN lake.shop.customers c ON c.id = o.customer_id;

-- unknown-column 2:8
WITH paid AS (SELECT order_id, amount AS eur FROM lake.shop.orders)
SELECT amount FROM paid;

-- unknown-column 1:64
WITH paid AS (SELECT * FROM lake.shop.orders) SELECT order_id, ordered_at FROM paid;

-- unknown-column 1:56
SELECT amount * 2 AS twice FROM lake.shop.orders WHERE twice > 10;

-- unknown-column 1:61
SELECT status, count(*) AS n FROM lake.shop.orders GROUP BY state;

-- unknown-column 1:75
SELECT status, count(*) AS n FROM lake.shop.orders GROUP BY status HAVING m > 1;

-- unknown-column 1:8
SELECT label FROM (SELECT name FROM lake.shop.customers UNION ALL SELECT status FROM lake.shop.orders);

-- unknown-column 1:39
SELECT transform(tags, t -> concat(t, suffix)) AS x FROM lake.shop.orders;

-- unknown-column 1:95
SELECT name FROM lake.shop.customers c WHERE EXISTS (SELECT 1 FROM lake.shop.orders o WHERE o.buyer = c.customer_id);

-- unknown-column 1:8
SELECT tagg FROM lake.shop.orders LATERAL VIEW explode(tags) t AS tag;

-- unknown-column 1:55
SELECT tag FROM lake.shop.orders LATERAL VIEW explode(labels) t AS tag;

-- unknown-column 1:60
SELECT name, row_number() OVER (PARTITION BY dept ORDER BY pay) AS n FROM lake.shop.employees;

-- unknown-column 1:13
SELECT a, v.name FROM lake.shop.numbers n JOIN (VALUES (1, 'x')) AS v(id, label) ON v.id = n.a;

-- unknown-alias 1:14
-- unknown-column 1:8
-- unknown-column 1:11
SELECT x, y, z.a FROM lake.shop.numbers;

-- unknown-column 1:47
SELECT name FROM lake.shop.customers ORDER BY nme;

-- unknown-column 1:8
SELECT colour FROM VALUES (1, 'red') AS t(id, color);

-- unknown-alias 1:119
SELECT o.order_id FROM lake.shop.orders o LEFT SEMI JOIN lake.shop.customers c ON c.customer_id = o.customer_id WHERE c.country = 'DE';

-- unknown-function 1:8
SELECT uper(name) AS n FROM lake.shop.customers;

-- unknown-function 2:3
SELECT order_id,
  safe_divide(amount, 2) AS half
FROM lake.shop.orders;

-- unknown-function 1:14
SELECT upper(lowr(name)) AS n FROM lake.shop.customers;

-- unknown-function 1:14
SELECT dept, arrayagg(name) AS n FROM lake.shop.employees GROUP BY dept;

-- unknown-function 1:33
-- unknown-function 1:89
SELECT date_sub(hired, 1) AS d, to_char_date(hired) AS e FROM lake.shop.employees WHERE `getdate`() > hired;

-- wrong-argument-count 1:8
SELECT upper(name, country) AS n FROM lake.shop.customers;

-- wrong-argument-count 1:8
SELECT upper() AS n FROM lake.shop.customers;

-- wrong-argument-count 1:17
SELECT coalesce(round(score, 1, 2), 0) AS n FROM lake.shop.customers;

-- wrong-argument-count 1:8
SELECT map('a', 1, 'b') AS m;

-- wrong-argument-count 1:8
SELECT make_timestamp_ntz(2026, 1, 1) AS t;

-- wrong-argument-count 1:47
SELECT name FROM lake.shop.customers ORDER BY substring_index(name, ' ');

-- wrong-argument-count 1:8
SELECT count() AS n FROM lake.shop.customers;

-- wrong-argument-count 1:8
SELECT sum(salary, 2) OVER (PARTITION BY dept) AS n FROM lake.shop.employees;

-- wrong-argument-count 1:8
SELECT date_trunc(placed_at) AS n FROM lake.shop.orders;

-- not-grouped 1:14
SELECT dept, name, count(*) AS n FROM lake.shop.employees GROUP BY dept;

-- not-grouped 1:8
SELECT name, max(salary) AS m FROM lake.shop.employees;

-- not-grouped 1:22
SELECT e.dept, upper(e.boss) AS boss, sum(e.salary) AS s FROM lake.shop.employees e GROUP BY e.dept;

-- not-grouped 1:26
SELECT upper(dept) AS d, salary + max(salary) AS s FROM lake.shop.employees GROUP BY 1;

-- not-grouped 1:8
SELECT address.city AS city, count(*) AS n FROM lake.shop.orders GROUP BY status;

-- not-grouped 2:21
WITH paid AS (SELECT customer_id, amount, status FROM lake.shop.orders)
SELECT customer_id, status, sum(amount) AS total FROM paid GROUP BY customer_id;

-- not-grouped 1:14
SELECT dept, boss, count(*) AS n FROM lake.shop.employees GROUP BY ROLLUP (dept);

-- not-grouped 1:19
SELECT dept AS d, hired, count(*) AS n FROM lake.shop.employees GROUP BY d;

-- unknown-field 1:32
SELECT transform(items, i -> i.skuu) AS x FROM lake.shop.orders;

-- unknown-column 1:71
SELECT order_id FROM lake.shop.orders JOIN lake.shop.customers USING (order_id);

-- unknown-column 1:8
SELECT b2 AS c, a AS b2 FROM lake.shop.numbers;

-- unknown-field 1:15
SELECT window.strt AS s, count(*) AS n FROM lake.shop.clicks GROUP BY window(at, '1 hour');

-- unknown-field 1:10
SELECT j.b AS x FROM (SELECT from_json(payload, 'a int') AS j FROM lake.shop.clicks);

-- unknown-field 1:24
SELECT attributes['a'].b AS x FROM lake.shop.orders;

-- unknown-field 1:29
SELECT named_struct('a', a).b AS x FROM lake.shop.numbers;

-- ambiguous-column 1:8
SELECT name FROM lake.shop.customers JOIN lake.shop.employees ON dept = country;

-- ambiguous-column 1:82
WITH j AS (SELECT x.a, y.a FROM lake.shop.numbers x, lake.shop.numbers y) SELECT a FROM j;

-- unknown-column 1:18
SELECT * EXCEPT (z) FROM lake.shop.numbers;

-- unknown-column 1:79
SELECT * FROM (SELECT s, a, b FROM lake.shop.numbers) UNPIVOT (v FOR k IN (a, z));

-- unknown-column 1:8
SELECT cols FROM (SELECT explode(tags) FROM lake.shop.orders);

-- unknown-field 1:10
SELECT i.skuu FROM lake.shop.orders LATERAL VIEW explode(items) t AS i;

-- not-grouped 1:70
SELECT dept FROM lake.shop.employees GROUP BY dept HAVING count(*) > salary;

-- wrong-argument-count 1:8
SELECT if(flag, a) AS x FROM lake.shop.numbers;

-- wrong-argument-count 1:8
SELECT transform(tags) AS x FROM lake.shop.orders;

-- wrong-argument-count 1:8
SELECT named_struct('a', a, 'b').a AS x FROM lake.shop.numbers;

-- wrong-argument-count 1:8
SELECT substring(name, 1, 2, 3) AS x FROM lake.shop.employees;

-- window-in-join 1:87
SELECT c.at FROM lake.shop.clicks AS c JOIN lake.shop.orders AS o ON o.amount > 0 AND window(c.at, '1 hour').end > c.at;
